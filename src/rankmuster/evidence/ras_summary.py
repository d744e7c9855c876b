"""The tables of a RAS text report: the job summary in its four shapes, and the groups of communicators."""

from __future__ import annotations

import re

from rankmuster.model.ras import RasGroup

_NUMBER = re.compile(r"-?\d{1,18}")
_SPAN = re.compile(r"-?\d{1,18}(?:--?\d{1,18})?")
_COLUMN = re.compile(r"[A-Z][A-Z,]{0,60}")
_UNIFORM = "(total) per node per process (total) (total)"
_BY_NODE = "per node per process"  # processes per node differ
_NODES = "per node"  # GPUs per process differ: nodes here, GPUs in a table of their own
_GPUS = "per process"
_TOTALS = "(total) (total) (total)"
_SHAPES = (_UNIFORM, _BY_NODE, _NODES, _GPUS, _TOTALS)
_WIDTH = {_UNIFORM: 5, _BY_NODE: 3, _NODES: 2, _GPUS: 2, _TOTALS: 3}
_GROUP_COLUMNS = 8


class JobSummary:
    """Adds up the rows; totals that the report states itself outrank sums."""

    def __init__(self) -> None:
        self.nodes: int | None = None
        self.processes: int | None = None
        self.gpus: int | None = None
        self._shape = ""
        self._stated = False

    def feed(self, line: str) -> bool:
        """Takes a header or a row; False for any other line."""
        words = " ".join(line.split())
        if words in _SHAPES:
            self._shape = words
            return True
        if words.startswith(("Nodes Processes", "Processes GPUs", "The outlier node", "Node ")):
            # The pids of the outlier list are wrong in every release so far (2.32.3): they are not read.
            return True
        cells = words.split(" ")
        if len(cells) != _WIDTH.get(self._shape) or not all(_NUMBER.fullmatch(cell) for cell in cells):
            return False
        self._row([int(cell) for cell in cells])
        return True

    def _row(self, row: list[int]) -> None:
        if self._shape in (_UNIFORM, _TOTALS):
            self.nodes, self.processes, self.gpus = row[0], row[-2], row[-1]
            self._stated = True
        elif not self._stated and self._shape in (_BY_NODE, _NODES):
            self.nodes = (self.nodes or 0) + row[0]
            self.processes = (self.processes or 0) + row[0] * row[1]
            if self._shape == _BY_NODE:
                self.gpus = (self.gpus or 0) + row[0] * row[1] * row[2]
        elif not self._stated:
            self.gpus = (self.gpus or 0) + row[0] * row[1]


def is_group_header(line: str) -> bool:
    """Either line of the header of the table of groups."""
    words = " ".join(line.split())
    return words.startswith(("Group Comms Nodes Ranks", "# in group per comm"))


def group_row(line: str) -> RasGroup | None:
    """`    0         1         1         4         4         4   RUNNING  MISMATCH`."""
    cells = line.split()
    if len(cells) != _GROUP_COLUMNS:
        return None
    *numbers, status, errors = cells
    spans = numbers.pop(3)  # ranks per node, "3-4" where they differ
    if not all(_NUMBER.fullmatch(cell) for cell in numbers) or not _SPAN.fullmatch(spans):
        return None
    if not _COLUMN.fullmatch(status) or not _COLUMN.fullmatch(errors):
        return None
    index, communicators, _nodes, size, in_group = (int(cell) for cell in numbers)
    found = tuple(word for word in errors.split(",") if word and word != "OK")
    return RasGroup(index, communicators, size, in_group, status, found)
