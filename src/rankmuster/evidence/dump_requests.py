"""`flight/asked.json` of a bundle (schema `rankmuster.dump-requests/1`): which ranks were asked to dump, and when.

`{"schema": "rankmuster.dump-requests/1", "requests": [{"rank": 2, "pid": 5892, "asked": 1795986505.1,
"written": 1795986511.4}, ...]}`. `written` is null where no dump came.
"""

from __future__ import annotations

import re

from rankmuster.evidence import json_text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.instance import MAX_RANK
from rankmuster.evidence.json_fields import number, unix_seconds
from rankmuster.model.flight import DumpRequest
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.dump-requests/')


def recognises(blob: Blob) -> bool:
    """A JSON object of this schema."""
    return json_text.begins(blob.data, _SCHEMA)


def read(blob: Blob) -> Reading:
    """One value per request; an entry without a usable time is left out and counted."""
    parsed = json_text.parse(blob.data, depth=3)
    document = parsed.value if isinstance(parsed.value, dict) else {}
    listed = document.get("requests")
    requests: list[DumpRequest] = []
    refused = 0
    for entry in listed if isinstance(listed, list) else ():
        asked = unix_seconds(entry.get("asked")) if isinstance(entry, dict) else None
        if asked is None:
            refused += 1
            continue
        requests.append(
            DumpRequest(
                source=blob.path,
                rank=number(entry.get("rank"), most=MAX_RANK),
                asked=asked,
                written=unix_seconds(entry.get("written")),
            )
        )
    problems = []
    if parsed.damage or refused:
        why = parsed.damage or "no time"
        message = f"{refused} request(s) for dumps cannot be used ({why}); {len(requests)} were"
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading(tuple(requests), tuple(problems), 1 if document else 0)


READER = Reader("requests for dumps", Plane.FLIGHT, ReaderKind.DOCUMENT, recognises, read)
