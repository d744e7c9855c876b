"""NCCL's own words inside a framework's exception: the line after `Last error:` (torch NCCLUtils, since NCCL 2.13).

Where NCCL_DEBUG was not set this is all that NCCL says, so it is read like a warning of its log. Ranks whose peers
failed carry an after-effect there (`Connection closed by remote peer`), which the same rules know.
"""

from __future__ import annotations

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds
from rankmuster.evidence.nccl_line import Level, NcclLine
from rankmuster.evidence.nccl_problems import classify
from rankmuster.model.nccllog import LogOrigin, NcclProblem
from rankmuster.model.plane import Plane

MARK = "Last error:"
MAX_TEXT = 500
"""Characters kept of the text, as of a warning in NCCL's log."""
REACH = 4
"""Lines after the mark in which the text stands: other writers' lines may come between."""
MAX_FOUND = 1000
"""Distinct texts of one file; every rank of a large job has its own."""


def read(blob: Blob) -> Reading:
    """NcclProblems, each once per rank and text."""
    if MARK.encode() not in blob.data:
        return Reading()
    origins = Origins(blob)
    lines = list(text.lines(blob.data))
    told: set[tuple[int | None, str]] = set()
    found: list[object] = []
    for index, (number, line) in enumerate(lines):
        at = line.find(MARK)
        if at < 0 or len(found) >= MAX_FOUND:
            continue
        origin, _ = origins.of(number, line)
        said = line[at + len(MARK) :].strip() or _following(origins, lines[index + 1 : index + 1 + REACH], origin.rank)
        if said is None or (origin.rank, said) in told:
            continue
        told.add((origin.rank, said))
        found_problem = _problem(
            said, LogOrigin(blob.path, number, origin.host, origin.pid, None, None, origin.rank, origin.stamp)
        )
        if found_problem is not None:
            found.append(found_problem)
    return Reading(tuple(found), (), len(told))


def _following(origins: Origins, lines: list[tuple[int, str]], rank: int | None) -> str | None:
    """The next line of the same writer; nothing where the exception ends at its mark (`Last error:` was empty)."""
    for number, line in lines:
        origin, prefix = origins.of(number, line)
        if origin.rank != rank:
            continue
        said = prefix.message.strip()
        ended = not said or said.startswith(("Exception raised from", "Traceback", "frame #", "File "))
        return None if ended else said
    return None


def _problem(said: str, origin: LogOrigin) -> NcclProblem | None:
    line = NcclLine(None, None, None, None, None, None, Level.WARN, None, said[:MAX_TEXT])
    classified = classify(line)
    if classified is None:
        return None
    return NcclProblem(origin, classified.kind, classified.primary, said[:MAX_TEXT], classified.peer, classified.detail)


def _recognises(blob: Blob) -> bool:
    return holds(blob, (MARK,))


READER = Reader("NCCL's last error", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
