"""What the filters of `rankmuster flight` choose: ranks as lists and ranges, groups by name, description or number."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError
from rankmuster.model.ranks_text import rank_ranges

if TYPE_CHECKING:
    from rankmuster.model.job import Group

MOST_RANK = 1_000_000
"""Larger numbers are no ranks (as in members of a dump's groups)."""

MOST_NAMED = 12
"""Groups that an error names."""

_RANGE = re.compile(r"\s*(\d{1,7})\s*(?:-\s*(\d{1,7})\s*)?")


def ranks_of(given: Iterable[str]) -> frozenset[int] | None:
    """`0,3,8-15` as ranks; None where nothing was given. Raises CommandError for what is no list of ranks."""
    found: set[int] = set()
    asked = False
    for text in given:
        for part in text.split(","):
            asked = True
            match = _RANGE.fullmatch(part)
            if match is None:
                raise CommandError(f"--rank {text}: {part.strip() or 'nothing'} is no rank; write 0,3,8-15")
            first, last = int(match.group(1)), int(match.group(2) or match.group(1))
            if last < first or last >= MOST_RANK:
                why = "the range runs backwards" if last < first else f"ranks are below {MOST_RANK:,}"
                raise CommandError(f"--rank {text}: {why}; write 0,3,8-15")
            found.update(range(first, last + 1))
    return frozenset(found) if asked else None


def keys_of(given: Sequence[str], ranks: frozenset[int] | None, groups: Sequence[Group]) -> frozenset[int] | None:
    """Keys of the groups that bear one of the names and have one of the ranks; None where neither was given.

    A name is what torch calls the group ("0", a hash), its description, or else its number in this report. Raises
    CommandError where nothing fits.
    """
    if not given and ranks is None:
        return None
    chosen = set(range(len(groups)))
    if given:
        chosen = set()
        for name in given:
            fitting = {group.key for group in groups if name in (group.name, group.desc, group.label)}
            if not fitting and name.isdecimal() and int(name[:9]) < len(groups):
                fitting = {groups[int(name[:9])].key}
            if not fitting:
                raise CommandError(f"--group {name}: no dump knows it; there are {_named(groups)}")
            chosen |= fitting
    if ranks is not None:
        chosen = {key for key in chosen if ranks & set(groups[key].members)}
        known = {member for group in groups for member in group.members}
        if not ranks & known:
            raise CommandError(
                f"--rank {rank_ranges(ranks)}: no group of these dumps has such a member; there are ranks "
                f"{rank_ranges(known) or 'unknown'}"
            )
    return frozenset(chosen)


def _named(groups: Sequence[Group]) -> str:
    names = list(dict.fromkeys(group.label for group in groups))
    more = len(names) - MOST_NAMED
    said = ", ".join(names[:MOST_NAMED]) or "none"
    return f"{said} and {more} more" if more > 0 else said
