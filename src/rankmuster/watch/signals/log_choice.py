"""Which of the files that were found are followed: each once, whoever has it open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import identity
from rankmuster.watch.signals.log_patience import Patience
from rankmuster.watch.signals.log_places import Wanted

MOST_FILES = 64
"""Followed at once: two a rank of the largest node, and its launchers'."""


def distinct(wanted: Sequence[Wanted], patience: Patience, deadline: Deadline) -> tuple[list[Wanted], bool]:
    """One a file, likeliest first, and whether all were looked at in time.

    A file that several ranks write to is no one rank's.
    """

    def look(one: Wanted) -> tuple[int, int] | None:
        try:
            return identity(one.source)
        except OSError:  # not there yet, or not to be read: following says which
            return None

    done = patience.each(list(wanted[: MOST_FILES * 4]), look, deadline)
    found: dict[object, Wanted] = {}
    for one, key in done.results:
        name: object = key if key is not None else (str(one.source.root), one.source.path)
        if name not in found:
            found[name] = one
        elif found[name].source.rank != one.source.rank:
            found[name] = _of_all(found[name])
    return list(found.values())[:MOST_FILES], not (done.stuck or done.skipped or deadline.passed)


def _of_all(wanted: Wanted) -> Wanted:
    return replace(wanted, source=replace(wanted.source, rank=None))
