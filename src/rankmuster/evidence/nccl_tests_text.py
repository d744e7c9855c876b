"""What nccl-tests printed -> its tables, each with all that belongs to it.

One file may hold many runs (a script's whole log), each behind other lines, and those of several writers woven into
each other under a launcher's labels. Each writer's lines are read for themselves; what a writer without a table says
of failures is said of all tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from rankmuster.evidence import nccl_tests_banner as banner
from rankmuster.evidence.nccl_tests_end import Failure, failure, is_usage
from rankmuster.evidence.nccl_tests_group import Listed
from rankmuster.evidence.nccl_tests_lines import Line, is_nccl, lines
from rankmuster.evidence.nccl_tests_operation import of_program
from rankmuster.evidence.nccl_tests_rows import (
    Beginning,
    Header,
    Row,
    beginning,
    complete,
    continued,
    header,
    row,
    unreadable,
)

MOST_ROWS = 50_000
"""Of one text, all tables together: a table of all types, operations and roots has 15,000, and a row takes 30 us."""

MOST_DEVICES = 200_000
"""Lines of lists of ranks in one text."""

MOST_TABLES = 1_000
MOST_FAILURES = 50

_BOUNDS = re.compile(r"Out of bounds values\s*: (\d{1,18}) (OK|FAILED)", re.ASCII)
_AVERAGE = re.compile(r"# {0,4}Avg(?: bus bandwidth\s*:[ \t]*(\S{0,30})(?: +(OK|FAILED))?)?")
_CONCLUDED = re.compile(r"# Collective test concluded")


@dataclass
class Table:
    """One run of the tool, as its output shows it; `rows` in their order. See `nccl_tests_end.Facts` for its end.

    `unread`: (line, how it begins) of rows that make no sense. `average`: what stands in its line, "" where that is
    cut. `full`: the text has more than is read.
    """

    line: int
    program: str | None = None
    command: tuple[str, ...] = ()
    version: str | None = None
    nccl: str | None = None
    settings: banner.Settings | None = None
    reduced: int | None = None
    devices: dict[int, banner.Device] = field(default_factory=dict)
    unread_ranks: int = 0
    twice: int | None = None
    header: Header | None = None
    rows: list[Row] = field(default_factory=list)
    commas: int = 0
    unread: list[tuple[int, str]] = field(default_factory=list)
    full: bool = False
    bounds: tuple[int, bool] | None = None
    average: str | None = None
    below_wanted: bool = False
    concluded: bool = False
    failures: list[Failure] = field(default_factory=list)
    usage: bool = False

    @property
    def begun(self) -> bool:
        """Whether the tool printed anything of a measurement."""
        return bool(self.settings or self.header or self.rows or self.commas or self.program)

    @property
    def over(self) -> bool:
        """Whether what follows can only be of another run."""
        return self.concluded or self.average is not None or self.bounds is not None

    @property
    def listed(self) -> Listed:
        """The list of ranks; of several groups the first is the one whose rows are printed."""
        groups = {device.group for device in self.devices.values()}
        first = min(groups, default=0)
        members = sum(device.group == first for device in self.devices.values())
        each = max(self.settings.threads * self.settings.gpus, 1) if self.settings is not None else 1
        return Listed(frozenset(self.devices), members, len(groups), each, self.unread_ranks, self.twice)


class _Writer:
    """The tables of one writer."""

    def __init__(self) -> None:
        self.tables: list[Table] = []
        self.table = Table(0)
        self.pending: Beginning | None = None
        self.rows = 0
        self.ranks = 0

    def take(self, line: Line) -> None:
        text = line.text
        if is_nccl(text):
            self.table.nccl = self.table.nccl or banner.nccl_said(text)
            return
        begun = beginning(text, line.number)
        if begun is not None:
            self._settle()
            self._row(begun, line)
            return
        if self.pending is not None and self._more(text):
            return
        self._other(line)

    def _row(self, begun: Beginning, line: Line) -> None:
        if self.table.over:
            self._next(line.number)
        if begun.comma:
            self.table.commas += 1
        elif complete(begun, self.table.header) and line.ended:
            self._add(begun, ended=True)
        elif begun.open and line.ended:
            self.pending = begun
        else:
            self._add(begun, ended=line.ended)

    def _more(self, text: str) -> bool:
        """Takes the rest of a row that NCCL wrote into."""
        assert self.pending is not None
        further = continued(self.pending, text)
        if further is None:
            return False
        if complete(further, self.table.header):
            self._add(further, ended=True)
            self.pending = None
        else:
            self.pending = further
        return True

    def _settle(self) -> None:
        """A row that nothing completed is a cut one."""
        if self.pending is not None:
            begun, self.pending = self.pending, None
            self._add(begun, ended=False)

    def _add(self, begun: Beginning, *, ended: bool) -> None:
        self.table.rows.append(row(begun, self.table.header, ended=ended))
        self.rows += 1

    def _other(self, line: Line) -> None:
        text, table = line.text, self.table
        if not text or text.isspace():
            return
        head = header(text)
        if head is not None:
            self._settle()
            self._start_unless(not table.over and not table.rows and table.header is None, line.number)
            self.table.header = head
            return
        if "Pid" in text and self._device(text, line.number):
            return
        if table.header is not None and not table.over and (begins := unreadable(text)) is not None:
            self._settle()
            table.unread = [*table.unread, (line.number, begins)][:MOST_FAILURES]
            return
        if "_perf" in text or "nThread" in text or "-tests" in text or "Reducing maxBytes" in text:
            self._banner(text, line.number)
        if ":" in text or "Avg" in text:
            self._summary(text)
        if is_usage(text):
            self.table.usage = True
        self._failure(text)

    def _device(self, text: str, number: int) -> bool:
        """Takes a line of the list of ranks."""
        found = banner.device(text)
        if found is None and not banner.is_rank(text):
            return False
        self._start_unless(not self.table.over and not self.table.rows, number)
        self.ranks += 1
        if found is None:
            self.table.unread_ranks += 1
        elif self.table.devices.setdefault(found.rank.rank, found) != found:
            self.table.twice = found.rank.rank
        return True

    def _banner(self, text: str, number: int) -> None:
        if (found := banner.settings(text)) is not None:
            self._start_unless(self.table.settings is None and not self.table.over and not self.table.rows, number)
            self.table.settings = found
        elif (program := banner.program(text)) is not None:
            self._start_unless(self.table.program is None and not self.table.over and not self.table.rows, number)
            self.table.program = program
        elif (version := banner.tool_version(text)) is not None:
            alone = self.table.version is None and not self.table.over and not self.table.rows
            # rccl-tests prints its version after the settings
            self._start_unless(alone, number)
            self.table.version, self.table.nccl = version[0], version[1] or self.table.nccl
        elif (largest := banner.reduced(text)) is not None:
            self.table.reduced = largest
        elif (command := banner.command(text)) is not None and of_program(command[0]) is not None:
            started = any(word.startswith("-") for word in command[1:])
            self._start_unless(not self.table.over and not (started and self.table.rows), number)
            if started or not self.table.command:
                self.table.command = command

    def _summary(self, text: str) -> None:
        if (bounds := _BOUNDS.search(text)) is not None:
            self._settle()
            self.table.bounds = (int(bounds[1]), bounds[2] == "FAILED")
        elif (average := _AVERAGE.search(text)) is not None:
            self._settle()
            self.table.average = average[1] or ""
            self.table.below_wanted = average[2] == "FAILED"
        elif _CONCLUDED.search(text) is not None:
            self._settle()
            self.table.concluded = True
        elif (nccl := banner.nccl_said(text)) is not None:
            self.table.nccl = self.table.nccl or nccl

    def _failure(self, text: str) -> None:
        found = failure(text)
        if found is not None and len(self.table.failures) < MOST_FAILURES:
            self.table.failures.append(found)

    def _start_unless(self, same: bool, number: int) -> None:
        if not same:
            self._next(number)

    def _next(self, number: int) -> None:
        self._settle()
        if len(self.tables) < MOST_TABLES:
            self.tables.append(self.table)
        else:
            self.tables[-1].full = True
        self.table = Table(number)

    def close(self) -> list[Table]:
        self._settle()
        self._next(0)
        return [table for table in self.tables if table.begun or table.failures or table.usage]


def tables(data: bytes) -> list[Table]:
    """The runs in a text, in the order of their beginnings; one without a table where only failures were printed."""
    writers: dict[str, _Writer] = {}
    rows = ranks = 0
    for line in lines(data):
        writer = writers.get(line.writer)
        if writer is None:
            writer = writers[line.writer] = _Writer()
        rows, ranks = rows - writer.rows, ranks - writer.ranks
        writer.take(line)
        rows, ranks = rows + writer.rows, ranks + writer.ranks
        if rows >= MOST_ROWS or ranks >= MOST_DEVICES:
            for one in writers.values():
                one.table.full = True
            break
    by_writer = [writer.close() for writer in writers.values()]
    found = [table for of_one in by_writer for table in of_one if table.begun]
    others = [table for of_one in by_writer for table in of_one if not table.begun]
    if not found:
        return _one(others)
    for table in found:
        table.failures += [one for other in others for one in other.failures][:MOST_FAILURES]
    return sorted(found, key=lambda table: table.line)


def _one(others: Iterable[Table]) -> list[Table]:
    """What was said of failures where nothing was measured, as one run."""
    alone = [table for table in others if table.failures or table.usage]
    if not alone:
        return []
    first = alone[0]
    for table in alone[1:]:
        first.failures += table.failures
        first.usage = first.usage or table.usage
    return [first]
