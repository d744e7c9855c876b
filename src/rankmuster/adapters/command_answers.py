"""What the operator's commands for a process group print: an answer to a call, a look at the group."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rankmuster.model.incident import Answer, Ending, GroupLook, GroupState
from rankmuster.report.inert import plain

_MAY_SAY = {one.value: one for one in (Ending.DONE, Ending.PARTIAL, Ending.FAILED, Ending.REFUSED, Ending.NODE)}


def read_answer(data: bytes, who: str, verb: str) -> Answer | None:
    """What it printed as an answer: an object with `ending`; None where it printed none."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or not isinstance(found.get("ending"), str):
        return None
    said, more = found.get("note"), found.get("data")
    words = plain(said, 600) if isinstance(said, str) else f"{who} said {plain(found['ending'], 40)} of {verb}"
    if found["ending"] not in _MAY_SAY:
        return Answer(
            ending=Ending.FAILED, note=f"{who} said {plain(found['ending'], 40)!r} of {verb}, which is no ending"
        )
    return Answer(ending=_MAY_SAY[found["ending"]], note=words, data=more if isinstance(more, dict) else {})


def read_look(found: Any) -> GroupLook:
    """The values of `GroupLook`. Raises ValueError, TypeError, KeyError."""
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}")
    status, at = found.get("exit_status"), found.get("at")
    if at is not None and (isinstance(at, bool) or not isinstance(at, (int, float)) or not math.isfinite(at)):
        raise ValueError("at is no time in unix seconds")
    if status is not None and (isinstance(status, bool) or not isinstance(status, int)):
        raise ValueError("exit_status is no number")
    return GroupLook(
        state=GroupState(found["state"]),
        incarnation=_text(found, "incarnation"),
        operation=_text(found, "operation"),
        hosts=tuple(_each(found, "hosts", str)),
        pids=tuple(_each(found, "pids", int)),
        ended_by_itself=found.get("ended_by_itself") is True,
        exit_status=status,
        at=None if at is None else float(at),
        note=plain(_text(found, "note") or "", 600),
    )


def _text(found: Mapping[str, Any], key: str) -> str | None:
    value = found.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _each(found: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    values = found.get(key) or []
    if not isinstance(values, list) or any(type(one) is not kind for one in values):
        raise ValueError(f"{key} is no list of {'names' if kind is str else 'numbers'}")
    return values
