"""The stop as JSON for hooks, schema `rankmuster.stop/1`: the watch's own judgement and `diagnose`'s verdict. Pure.

Fields may be added, never renamed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rankmuster.model.fault import Role
from rankmuster.model.verdict_json import suspect_to_plain, suspects_from_plain
from rankmuster.report.inert import plain
from rankmuster.report.words import who
from rankmuster.watch.respond.outcome import Ended, StopOutcome

SCHEMA = "rankmuster.stop/1"

MAX_BYTES = 1 << 20
"""Of the JSON. A verdict that is larger goes without its findings, which stand in the bundle's folder."""

MAX_VARIABLE = 2_000
"""Characters of one variable of a hook's environment."""


def document(outcome: StopOutcome) -> dict[str, Any]:
    """As plain values; the hooks themselves are not in it."""
    notice = outcome.notice
    return {
        "schema": SCHEMA,
        "instance": notice.instance,
        "deployment": notice.deployment,
        "incarnation": notice.incarnation,
        "host": notice.host,
        "pids": list(notice.pids),
        "detected_at": notice.detected_at,
        "since": notice.since,
        "number": outcome.number,
        "watch": {
            "progress": notice.state.value,
            "reason": notice.reason,
            "class": notice.class_,
            "subclass": notice.subclass,
            "confidence": notice.confidence.value if notice.confidence is not None else None,
            "suspects": [suspect_to_plain(one) for one in notice.suspects],
            "planes": [
                {"plane": one.plane.value, "state": one.state.value, "age": one.age, "note": one.note}
                for one in notice.planes
            ],
        },
        "bundle": str(outcome.bundle) if outcome.bundle is not None else None,
        "folder": str(outcome.folder) if outcome.folder is not None else None,
        "collect": {**_step(outcome.collect), "collectors": dict(outcome.collectors)},
        "diagnose": _step(outcome.diagnose),
        "verdict": dict(outcome.verdict) if outcome.verdict is not None else None,
        "notes": list(outcome.notes),
    }


def _step(ended: Ended) -> dict[str, Any]:
    return {
        "ending": ended.ending.value,
        "note": ended.note,
        "status": ended.status,
        "seconds": round(ended.seconds, 3),
        "repeated": ended.repeated,
    }


def body(outcome: StopOutcome) -> bytes:
    """One JSON text, ASCII, at most MAX_BYTES."""
    whole = document(outcome)
    data = _dump(whole)
    if len(data) > MAX_BYTES and isinstance(whole["verdict"], dict):
        short = {key: value for key, value in whole["verdict"].items() if isinstance(value, (str, int, float))}
        whole["verdict"] = {**short, "suspects": (whole["verdict"].get("suspects") or [])[:64]}
        whole["notes"].append("the verdict is cut, since it is very long; the whole of it is in the folder")
        data = _dump(whole)
    if len(data) > MAX_BYTES:
        whole["verdict"], whole["pids"] = None, whole["pids"][:1000]
        whole["watch"] = {"progress": whole["watch"]["progress"], "reason": plain(whole["watch"]["reason"])}
        data = _dump(whole)
    return data


def _dump(value: Mapping[str, Any]) -> bytes:
    return json.dumps(finite(value), allow_nan=False, default=str).encode("ascii")


def finite(value: Any) -> Any:
    """`value` with NaN and infinities as null, which JSON has no words for."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return value


def culprits(outcome: StopOutcome) -> tuple[str, ...]:
    """Who is named: by the verdict on the bundle, and by the watch's own where there is none."""
    named = outcome.notice.suspects
    if outcome.verdict is not None:
        named = suspects_from_plain(outcome.verdict)
    return tuple(plain(who(one), 200) for one in named if one.role is Role.CULPRIT)


def variables(outcome: StopOutcome) -> dict[str, str]:
    """For a command's environment. Other names than those by which processes are counted to an instance: a hook is no
    part of it, and what it leaves behind must not be taken for one when it is started again."""
    verdict = outcome.verdict or {}
    found = {
        "INSTANCE": outcome.notice.instance,
        "INCARNATION": outcome.notice.incarnation,
        "CLASS": verdict.get("class") or outcome.notice.class_ or "",
        "SUBCLASS": verdict.get("subclass") or (outcome.notice.subclass if not verdict else "") or "",
        "CULPRITS": "; ".join(culprits(outcome)),
    }
    bundle = str(outcome.bundle) if outcome.bundle is not None else ""
    return {f"RANKMUSTER_STOP_{name}": plain(value, MAX_VARIABLE) for name, value in found.items()} | {
        "RANKMUSTER_STOP_BUNDLE": bundle
    }
