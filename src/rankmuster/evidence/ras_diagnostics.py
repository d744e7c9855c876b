"""The reply to RAS's `DIAGNOSTICS` (NCCL 2.31.2 and later): checks across ranks, one a line, `[OK]` or `[INFO]`.

`=== RAS Diagnostics ===`, lines `HOST:PID NCCL DIAG [OK]   TEXT`, then `RAS diagnostics completed in N ms across N RAS
peers`. The same lines stand in the standard output of rank 0 under NCCL_RUN_RAS_DIAGNOSTICS=1.
"""

from __future__ import annotations

import re

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import holds
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras_asking import RasDiagnostic

MAX_LINES = 10_000
"""A few a communicator and check."""
MAX_TEXT = 600
"""Characters kept of a line; rank sets are abbreviated by NCCL itself."""

TITLE = "=== RAS Diagnostics ==="
END = "RAS diagnostics completed in "
_MARK = " NCCL DIAG ["
_LINE = re.compile(
    r"(?:^|\s)(?P<host>[^\s:]{1,255}):(?P<pid>\d{1,10}) NCCL DIAG \[(?P<word>[A-Z]{2,10})\]\s{1,8}(?P<text>\S.*)"
)


def _recognises(blob: Blob) -> bool:
    return holds(blob, (TITLE, _MARK))


def _read(blob: Blob) -> Reading:
    found: list[RasDiagnostic] = []
    frame = ended = 0
    for number, line in text.lines(blob.data):
        if TITLE in line:
            frame += 1
        elif END in line:
            ended += 1
        elif _MARK in line:
            match = _LINE.search(line)
            if match is not None and len(found) < MAX_LINES:
                said = match["text"].strip()[:MAX_TEXT]
                found.append(
                    RasDiagnostic(blob.path, number, match["host"], int(match["pid"]), match["word"] == "OK", said)
                )
    problems: tuple[Problem, ...] = ()
    if frame and not ended:
        message = f"RAS's diagnostics end before their last line; the {len(found)} before were read"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(found), problems, len(found) + frame)


READER = Reader("NCCL RAS diagnostics", Plane.RAS, ReaderKind.LINES, _recognises, _read)
