"""Where the members of a group are at one of its numbers: not there yet, before it, at it, or past it."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.diagnose.finding import verb
from rankmuster.diagnose.roll import RollTable
from rankmuster.diagnose.wait_graph import WaitGraph
from rankmuster.diagnose.waits import has_finished
from rankmuster.model.ranks_text import ranks_text


@dataclass(frozen=True, slots=True)
class Standing:
    """Members whose place is known. `entered` have enqueued it: `left` it again, are `waiting` at it, or stand before
    it at another operation; `missing` have not enqueued it.
    """

    entered: tuple[int, ...]
    left: tuple[int, ...]
    waiting: tuple[int, ...]
    missing: tuple[int, ...]

    def text(self) -> str:
        """`ranks 0, 1, 3 entered; ranks 0, 1 left it, rank 3 waits`."""
        text = f"{ranks_text(self.entered)} entered"
        before = tuple(rank for rank in self.entered if rank not in self.left and rank not in self.waiting)
        if not self.left and not before:
            return text
        if self.left == self.entered:
            return f"{text} and left it"
        parts = [f"{ranks_text(self.left)} left it"] if self.left else []
        if self.waiting:
            parts.append(f"{ranks_text(self.waiting)} {verb(self.waiting, 'waits', 'wait')}")
        if before:
            parts.append(f"{ranks_text(before)} {verb(before, 'stands', 'stand')} before it")
        return f"{text}; {', '.join(parts)}"


def standing(table: RollTable, graph: WaitGraph, group: int, seq: int) -> Standing:
    """Who of `group` is where at `seq`. A dump older than its peers', or cut short, says nothing of what is missing."""
    entered, left, waiting, missing = [], [], [], []
    for rank in table.group(group).members:
        view = table.views.get((group, rank))
        flight = table.rows.get(rank)
        if view is None and (flight is None or (group, rank) in table.unplaced):
            continue
        if view is None or view.issued < seq:
            if (group, rank) not in graph.older and not (flight is not None and flight.dump.cut):
                missing.append(rank)
            continue
        entered.append(rank)
        head = table.heads.get(rank)
        if head is not None and (head.group, head.seq) == (group, seq):
            waiting.append(rank)
        elif has_finished(table, group, rank, seq):
            left.append(rank)
    return Standing(tuple(entered), tuple(left), tuple(waiting), tuple(missing))


def first_number(table: RollTable, group: int, after: int, ranks: tuple[int, ...]) -> tuple[int, float] | None:
    """(the lowest number above `after` that one of `ranks` entered, when the first of them did), from dumps alone.

    Time in unix seconds, infinite where no stamp says it; None where none of them has such a number.
    """
    rolls = [roll for rank in ranks if (roll := table.rolls.get((group, rank))) is not None]
    numbers = [int(above[0]) for roll in rolls if len(above := roll.seq[roll.seq > after])]
    if not numbers:
        return None
    lowest = min(numbers)
    places = [(roll, position) for roll in rolls if (position := roll.at(lowest)) is not None]
    times = [float(roll.created[position]) for roll, position in places if roll.created[position] > 0]
    return lowest, min(times, default=float("inf"))
