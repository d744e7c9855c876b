"""`platform/supervisor.json` of a bundle (schema `rankmuster.supervisor/1`): a group's end as `rankmuster run` saw it.

`{"schema": "rankmuster.supervisor/1", "ended": true, "ended_by_itself": true, "ended_by": "", "launcher": {"pid": 3318,
"exit_code": -9, "exited_at": 1796049101.4, ...}, "members": [{"pid": 3503, "rank": 0, "signalled": 15, ...}], ...}`.
"""

from __future__ import annotations

import re

from rankmuster.evidence import json_text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.exit_codes import MAX_SIGNAL
from rankmuster.evidence.json_fields import Fields, number
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.supervised import SupervisedEnd

MAX_TEXT = 500

_SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.supervisor/')


def recognises(blob: Blob) -> bool:
    """A JSON object of this schema."""
    return json_text.begins(blob.data, _SCHEMA)


def read(blob: Blob) -> Reading:
    """One value; a field of the wrong type is left out and named."""
    parsed = json_text.parse(blob.data)
    if not isinstance(parsed.value, dict):
        message = f"begins like a supervisor's word and cannot be read ({parsed.damage or 'no object'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    fields = Fields(parsed.value, "supervisor")
    raw = parsed.value.get("launcher")
    launcher = Fields(raw if isinstance(raw, dict) else {}, "launcher")
    listed = parsed.value.get("members")
    members = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    signalled = [one for one in members if number(one.get("signalled"), least=1, most=MAX_SIGNAL) is not None]
    value = SupervisedEnd(
        source=blob.path,
        over=fields.boolean("ended") is True,
        by=(fields.text("ended_by") or "")[:MAX_TEXT],
        launcher_pid=launcher.integer("pid", least=1),
        launcher_name=(launcher.text("name") or "")[:MAX_TEXT],
        launcher_code=launcher.integer("exit_code", least=-MAX_SIGNAL, most=255),
        launcher_at=launcher.time("exited_at"),
        ended_after=len(signalled),
        log=fields.text("log"),
    )
    problems = [Problem(ProblemKind.CORRUPT, blob.path, text) for text in (*fields.complaints, *launcher.complaints)]
    if parsed.damage:
        problems.insert(0, Problem(ProblemKind.DAMAGED, blob.path, f"damaged ({parsed.damage}); the rest was used"))
    return Reading((value,), tuple(problems), 1)


READER = Reader("supervisor's word on the end", Plane.PLATFORM, ReaderKind.DOCUMENT, recognises, read)
