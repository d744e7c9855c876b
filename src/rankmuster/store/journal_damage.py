"""What a journal holds and did not write so, or a newer program wrote: said with what to do, wherever it is met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TypeVar

from rankmuster.store.errors import Damaged, NewerHistory

_E = TypeVar("_E", bound=Enum)

REMEDY = "restore the journal from a copy, or name another one and look after this incident by hand"


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Values out of the tables, made into what they stand for. Raises Damaged, NewerHistory."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError, RecursionError) as error:
        said = " ".join(str(error).split())[:200]
        raise Damaged(f"{what} in the journal cannot be as it was written ({said}): {REMEDY}") from error


def word(kind: type[_E], value: object, what: str) -> _E:
    """A word of a closed list. Raises NewerHistory for one that is on no list here: `digest`s say whether it was
    changed since."""
    try:
        return kind(value)
    except ValueError:
        raise NewerHistory(
            f"{what} in the journal says {str(value)[:60]!r} where this program knows "
            f"{', '.join(str(one.value) for one in kind)}: a newer rankmuster wrote it, or it was changed by hand; use "
            "the newer program for it"
        ) from None
