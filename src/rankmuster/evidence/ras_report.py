"""One RAS text report, fed line by line."""

from __future__ import annotations

import re
from dataclasses import replace
from enum import IntEnum

from rankmuster.evidence.ras_lines import (
    Topic,
    block_line,
    crowd_line,
    header_line,
    missing_list,
    process_line,
    rank_line,
)
from rankmuster.evidence.ras_members import Members
from rankmuster.evidence.ras_sanity import corruption
from rankmuster.evidence.ras_summary import JobSummary, group_row, is_group_header
from rankmuster.model.ras import ANY_OPERATION, RasGroup, RasPoll, RasProcess
from rankmuster.model.stamp import Stamp

_N = r"(-?\d{1,18})"
_VERSION = re.compile(r"NCCL version (\S{1,60}) compiled with CUDA .{1,40}")
_DURATION = re.compile(r"Communicators\.\.\.(?: \((\d{1,9}(?:\.\d{1,9})?)s\))?\s*")
_MISSING = re.compile(rf"\s*Missing communicator data from {_N} (job process(?:es)?|ranks?)\s*")
_DEAD = re.compile(rf"\s*{_N} job process(?:es are| is) considered dead.*")
_UNNAMED = re.compile(rf"\s*\[could not find information on {_N} process(?:es)?\]\s*")
_TIMEOUTS = re.compile(rf"\s*Encountered {_N} communication timeouts?.*")
_FAILED = re.compile(rf"\s*(Initialization|Asynchronous) errors? on {_N} ranks?\s*")
_LISTS = ("INCOMPLETE", "DEAD", "TIMEOUT")


class Stage(IntEnum):
    """How far into a report; a stage that comes again begins the next report."""

    NOTHING = 0
    VERSION = 1
    SUMMARY = 2
    COMMUNICATORS = 3
    ERRORS = 4
    WARNINGS = 5


_TITLES = {"Job summary": Stage.SUMMARY, "Errors": Stage.ERRORS, "Warnings": Stage.WARNINGS}


def stage_of(line: str, following: str | None) -> Stage | None:
    """The stage that `line` opens. Titles are underlined; `following` None: the text ends behind the line."""
    words = line.rstrip()
    underlined = following is None or following.startswith("==")
    if words in _TITLES and underlined:
        return _TITLES[words]
    if words.startswith("Communicators...") and _DURATION.fullmatch(words):
        return Stage.COMMUNICATORS
    return Stage.VERSION if _VERSION.fullmatch(words) else None


class Report:
    """Collects lines, then builds the poll."""

    def __init__(self) -> None:
        self.stage = Stage.NOTHING
        self.known = 0
        self.strange: list[str] = []
        self._version: str | None = None
        self._seconds: float | None = None
        self._summary = JobSummary()
        self._groups: dict[int, RasGroup] = {}
        self._none = False
        self._members: dict[tuple[int, int, int], Members] = {}
        self._current: Members | None = None
        self._list = ""  # INCOMPLETE, DEAD or TIMEOUT, of processes
        self._missing: list[RasProcess] = []
        self._missing_count = 0
        self._dead: list[RasProcess] = []
        self._dead_count = 0
        self._timeouts = 0
        self._cut_list = False
        self._underlined = False

    def enter(self, stage: Stage, line: str) -> None:
        """`line` opens `stage`."""
        self.stage, self._current, self._list = stage, None, ""
        self._underlined = False
        self.known += 1
        version = _VERSION.match(line)
        if version:
            self._version = version.group(1)
        duration = _DURATION.match(line)
        if duration and duration.group(1):
            self._seconds = float(duration.group(1))

    def feed(self, line: str) -> bool:
        """Takes a line inside a stage; False for what no NCCL prints there."""
        if not line.strip():
            return True
        if line.startswith("==") and not line.strip("= "):
            self._underlined = True
            return True
        taken = self._take(line)
        self.known += taken
        return taken

    def build(self, source: str, time: Stamp | None, node: str | None, stamp: Stamp | None, *, cut: bool) -> RasPoll:
        """`cut`: its last line was not whole."""
        in_full = self._is_in_full()
        dead = None
        if in_full and len(self._dead) == self._dead_count:
            dead = frozenset((process.host, process.pid) for process in self._dead)
        poll = RasPoll(
            source=source,
            time=time,
            node=node,
            form="text",
            nccl_version=self._version,
            stamp=stamp,
            nodes=self._summary.nodes,
            processes_total=self._summary.processes,
            groups=tuple(self._groups.values()),
            communicators=tuple(m.build(self._groups.get(m.header.group), dead) for m in self._members.values()),
            no_communicators=self._none,
            missing_processes=tuple(self._missing),
            missing_process_count=max(self._missing_count, len(self._missing)),
            dead_processes=tuple(self._dead),
            dead_process_count=max(self._dead_count, len(self._dead)),
            timeouts=self._timeouts,
            collection_seconds=self._seconds,
            truncated=cut or not in_full,
            gpus_total=self._summary.gpus,
        )
        return replace(poll, corrupt=corruption(poll))

    def _is_in_full(self) -> bool:
        if self.stage is not Stage.WARNINGS or not self._underlined or self._cut_list:
            return False
        if self._current is None:
            return True
        group = self._groups.get(self._current.header.group)
        return not self._current.is_cut(group.ranks_per_communicator if group else None)

    def _take(self, line: str) -> bool:
        if self.stage is Stage.VERSION:
            return line.startswith("CUDA runtime version")
        if self.stage is Stage.SUMMARY:
            return self._summary.feed(line)
        header = header_line(line)
        if header is not None:
            key = (header.group, header.index, header.hash)
            self._current = self._members.setdefault(key, Members(header))
            self._current.open(header.kind)
            self._list, self._cut_list = "", False
            return True
        if line.strip() in _LISTS and not line.startswith(" "):
            self._current, self._list = None, line.strip()
            self._cut_list = True
            return True
        if self.stage in (Stage.NOTHING, Stage.COMMUNICATORS) and self._take_group(line):
            return True
        return self._take_process(line) if self._current is None else self._take_member(line, self._current)

    def _take_group(self, line: str) -> bool:
        if is_group_header(line):
            self.stage = Stage.COMMUNICATORS
            return True
        if line.startswith("No communicator data collected"):
            self._none = True
            return True
        row = group_row(line)
        if row is not None:
            self._groups[row.index] = row
        return row is not None

    def _take_process(self, line: str) -> bool:
        process = process_line(line)
        if process is not None:
            (self._dead if self._list == "DEAD" else self._missing).append(process)
            return True
        missing, dead, timeouts = _MISSING.fullmatch(line), _DEAD.fullmatch(line), _TIMEOUTS.fullmatch(line)
        if missing and missing.group(2).startswith("job"):
            self._missing_count = int(missing.group(1))
        elif dead:
            self._dead_count = int(dead.group(1))
        elif timeouts:
            self._timeouts = int(timeouts.group(1))
        else:
            return _UNNAMED.fullmatch(line) is not None
        self._cut_list = False
        return True

    @staticmethod
    def _take_member(line: str, members: Members) -> bool:
        rank = rank_line(line)
        if rank is not None:
            members.rank(rank)
            return True
        crowd = crowd_line(line)
        if crowd is not None:
            members.crowd(crowd)
            return True
        block = block_line(line)
        if block is not None:
            topic, operation = block
            members.open_block(topic, ANY_OPERATION if topic is Topic.COUNT and operation is None else operation)
            return True
        missing, failed, listed = _MISSING.fullmatch(line), _FAILED.fullmatch(line), missing_list(line)
        if missing and missing.group(2).startswith("rank"):
            members.miss(int(missing.group(1)))
        elif failed:
            members.open_errors(initialising=failed.group(1) == "Initialization")
        elif listed is not None:
            members.miss_ranks(listed)
        else:
            return False
        return True
