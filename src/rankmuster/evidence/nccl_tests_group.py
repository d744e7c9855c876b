"""How many ranks were measured: what the list of ranks, the settings and the numbers say together.

A list may have lost lines, at its end, in its middle, or all but one. Then the number of ranks is taken from what
else agrees, and that lines are missing is said; where nothing agrees, the run is not complete. What contradicts each
other (busbw / algbw of four ranks under a whole list of three, or under another operation's name) is never settled
for one of the two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.evidence.nccl_tests_factor import ANY, MOST_RANKS, Sizes, factor, sizes
from rankmuster.evidence.nccl_tests_rows import Row
from rankmuster.model.benchmark import Operation

SHOWN = 4


@dataclass(frozen=True, slots=True)
class Listed:
    """The list of ranks. `ranks`: its numbers; `members`: those of the measured group, which is the first of `groups`.

    `each`: ranks of one process (threads x GPUs), 1 where nobody says. `unread`: lines of it that make no sense.
    `twice`: a rank that it names twice, on different devices.
    """

    ranks: frozenset[int]
    members: int
    groups: int
    each: int
    unread: int = 0
    twice: int | None = None

    @property
    def highest(self) -> int:
        """Ranks that there are at least: the highest one's number and those below it."""
        return max(self.ranks, default=-1) + 1

    @property
    def whole(self) -> bool:
        """Whether it names every rank, as far as the list itself tells."""
        return bool(self.ranks) and len(self.ranks) == self.highest and not self.unread and self.twice is None

    @property
    def of_processes(self) -> bool:
        """Whether it is what processes of `each` ranks add up to."""
        return self.groups > 1 or self.highest % self.each == 0


@dataclass(frozen=True, slots=True)
class Group:
    """`ranks`: how many were measured, None where nobody knows. `unlisted`: the list names fewer of them.

    At most one is not empty: `note`, what is worth knowing; `gap`, why the number is not known; `contradiction`.
    """

    ranks: int | None
    unlisted: bool = False
    note: str = ""
    gap: str = ""
    contradiction: str = ""


def group(listed: Listed, operation: Operation, rows: Sequence[Row]) -> Group:
    """The measured group of a table of this operation."""
    allowed = sizes(operation, rows)
    if listed.twice is not None:
        return Group(None, gap=f"the list of ranks names rank {listed.twice} twice, on different devices")
    if listed.groups > 1:
        return _of_groups(listed, operation, rows, allowed)
    if listed.whole and listed.of_processes:
        if allowed.allow(listed.highest):
            return Group(listed.highest)
        return Group(None, contradiction=_contradicted(operation, listed.highest, rows, allowed))
    for ranks in (listed.highest, allowed.only, listed.each):
        if ranks is not None and _fits(ranks, listed, allowed):
            return Group(ranks, unlisted=ranks > len(listed.ranks), note=_named(listed, ranks))
    said = _named(listed, None)
    if not _possible(listed, allowed):
        found = _contradicted(operation, max(listed.highest, listed.each), rows, allowed)
        return Group(None, gap=f"{said}; {found}")
    return Group(None, gap=f"{said}, and nothing else says how many ranks there were")


def _fits(ranks: int, listed: Listed, allowed: Sizes) -> bool:
    """Whether so many ranks agree with everything that is known, and something besides a list with holes says so."""
    said = allowed != ANY or (ranks == listed.each and listed.each > 1)
    return said and ranks > 1 and ranks in _possible(listed, allowed)


def _possible(listed: Listed, allowed: Sizes) -> range:
    """The numbers of ranks that the list, the settings and the numbers leave."""
    least = max(listed.highest, allowed.least, 1)
    least = -(-least // listed.each) * listed.each
    most = MOST_RANKS if allowed.most is None else min(allowed.most, MOST_RANKS)
    return range(least, most + 1, listed.each)


def _of_groups(listed: Listed, operation: Operation, rows: Sequence[Row], allowed: Sizes) -> Group:
    """Of several groups at once the first is printed; a list with holes does not tell which group the lost ones had."""
    if listed.whole:
        if allowed.allow(listed.members):
            return Group(listed.members)
        return Group(None, contradiction=_contradicted(operation, listed.members, rows, allowed))
    if allowed.only is not None and allowed.only >= listed.members:
        note = f"the list of ranks has holes; the measured group has {allowed.only} ranks, as the numbers say"
        return Group(allowed.only, note=note)
    return Group(None, gap="the list of ranks has holes, and nothing else says how many ranks the group had")


def _named(listed: Listed, ranks: int | None) -> str:
    if not listed.ranks:
        missing = "the list of ranks is missing"
    else:
        absent = [number for number in range(min(listed.highest, MOST_RANKS)) if number not in listed.ranks]
        named = ", ".join(map(str, absent[:SHOWN])) + (", ..." if len(absent) > SHOWN else "")
        of = f" of {ranks}" if ranks is not None else ""
        missing = f"the list of ranks names {len(listed.ranks)}{of}"
        missing += f" (not {named})" if absent else ""
    if listed.unread:
        missing += f", {listed.unread} of its lines cannot be read"
    if ranks is None:
        return missing
    return f"{missing}; that there are {ranks} is what the numbers and settings say"


def _contradicted(operation: Operation, ranks: int, rows: Sequence[Row], allowed: Sizes) -> str:
    found = factor(rows)
    ratio = f"busbw / algbw of {found.middle:.3f}" if found is not None else "size / count"
    many = f"{ranks} ranks" if ranks > 1 else "one rank"
    fits = f", which fit {operation.value} over {allowed.only}" if allowed.only is not None else ""
    wanted = f" of {operation.bus_factor(ranks):.3f}" if found is not None and ranks > 0 else ""
    return (
        f"it says {operation.value} over {many}, a factor{wanted}, and its rows have a {ratio}{fits}: "
        "one of both was changed or damaged"
    )
