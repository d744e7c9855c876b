"""RAS text reports, of every NCCL since 2.24: replies to STATUS and VERBOSE STATUS (NCCL src/ras/client_support.cc)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rankmuster.evidence import names, text, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.ras_handshake import is_answer
from rankmuster.evidence.ras_lines import crowd_line, header_line
from rankmuster.evidence.ras_report import Report, Stage, stage_of
from rankmuster.evidence.ras_sanity import disbelief
from rankmuster.evidence.ras_summary import is_group_header
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import Stamp, StampKind, unix

PREAMBLE_LINES = 6
"""Lines that may stand before a report: a prompt, `date`, the handshake. A log with a report further down is a log."""

MAX_DATE_LINE = 100
"""Characters of a line between two reports in which a time is looked for; what `date` or `echo` print is shorter."""

_MARKS = (b"Communicators...", b"Job summary", b"CUDA", b"communicator", b"Communicator", b"per comm")
_OWN_WORDS = ("Missing communicator data", "considered dead", "communication timeout")
_ASKED = re.compile(r"(?<![\d.])(1[0-9]{9}|2[0-9]{9})(\.\d{1,9})?(?![\d.])")


def _recognises(blob: Blob) -> bool:
    start = blob.data[:8192]
    if not any(mark in start for mark in _MARKS):
        return False
    head = text.head(blob.data)
    lines = [line for line in head.splitlines() if line.strip()][: PREAMBLE_LINES + 2]
    return any(_begins(lines, i, head) for i in range(min(len(lines), PREAMBLE_LINES)))


def _begins(lines: list[str], i: int, head: str) -> bool:
    line, following = lines[i], lines[i + 1] if i + 1 < len(lines) else None
    if header_line(line) or is_group_header(line):
        return True
    stage = stage_of(line, following)
    if stage is Stage.VERSION:
        # NCCL prints a line like this into logs too; only a report goes on with the runtime's version.
        return following is not None and "CUDA runtime version".startswith(following[:20])
    if stage in (Stage.SUMMARY, Stage.ERRORS, Stage.WARNINGS):
        if following is None:
            return False
        own = ("Processes",) if stage is Stage.SUMMARY else _OWN_WORDS
        return any(word in head for word in own) or any(header_line(later) for later in lines)
    return stage is Stage.COMMUNICATORS


@dataclass(slots=True)
class _Split:
    """The reports of a file, with the time that stood before each."""

    reports: list[tuple[Report, Stamp | None]] = field(default_factory=list)
    before: Stamp | None = None
    foreign: int = 0
    cut: bool = False


def _read(blob: Blob) -> Reading:
    split = _split(blob.data)
    polls: list[RasPoll] = []
    problems: list[Problem] = []
    for position, (report, before) in enumerate(split.reports):
        last = position == len(split.reports) - 1
        # The file's own time is that of its first report.
        asked = names.time_of(blob.path) if position == 0 else None
        stamp = None
        if before is not None:
            asked, stamp = (before, None) if before.kind is StampKind.UNIX else (asked, before)
        poll = report.build(blob.path, asked, names.node_of(blob.path), stamp, cut=last and split.cut)
        polls.append(poll)
        problems += _problems(report, poll)
    if split.foreign:
        message = f"{split.foreign} lines belong to no RAS report and were not read; the reports were"
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading(tuple(polls), tuple(problems), sum(report.known for report, _ in split.reports))


def _split(data: bytes) -> _Split:
    split = _Split()
    lines = [line for _, line in text.lines(data)]
    whole = data.endswith((b"\n", b"\r"))
    report: Report | None = None
    for position, line in enumerate(lines):
        last = position == len(lines) - 1
        stage = stage_of(line, None if last else lines[position + 1])
        if report is None or (stage is not None and stage <= report.stage):
            if stage is None and not (header_line(line) or is_group_header(line)):
                _between(line, split)
                continue
            report = Report()
            split.reports.append((report, split.before))
            split.before = None
        if stage is not None:
            report.enter(stage, line)
            continue
        if last and not whole and crowd_line(line):
            # Its number may lack digits, and nothing further tells.
            split.cut = True
        elif not report.feed(line):
            if last and not whole:
                split.cut = True
            elif line.startswith((" ", "#")):
                report.strange.append(line)
            else:
                _between(line, split)
    return split


def _between(line: str, split: _Split) -> None:
    """Takes a line that stands outside of reports: the handshake, a prompt, a time."""
    found = _time(line)
    split.before = found or split.before
    expected = (
        not line.strip() or is_answer(line.strip()) or line.startswith(("$", "# ", "==", "--", "[...]", "Every "))
    )
    split.foreign += not expected and found is None


def _time(line: str) -> Stamp | None:
    if len(line) > MAX_DATE_LINE:
        return None
    asked = _ASKED.search(line)
    if asked:
        return unix(float(asked.group(1) + (asked.group(2) or "")))
    return times.any_of(line)


def _problems(report: Report, poll: RasPoll) -> list[Problem]:
    found = disbelief(poll)
    if poll.truncated:
        message = f"the RAS report ends early, in its part {report.stage.name.lower()}; what stands before was read"
        found.append(Problem(ProblemKind.DAMAGED, poll.source, message))
    if report.strange:
        message = (
            f"{len(report.strange)} lines of the RAS report were not understood, the first: {report.strange[0][:80]!r}"
        )
        found.append(Problem(ProblemKind.DAMAGED, poll.source, message))
    empty = [group.index for group in poll.groups if group.ranks_per_communicator == 0]
    if empty and not poll.corrupt:
        message = f"group {empty[0]} has communicators of 0 ranks (NCCL lists them while they come and go)"
        found.append(Problem(ProblemKind.DAMAGED, poll.source, message))
    return found


READER = Reader(
    name="NCCL RAS text report", plane=Plane.RAS, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
