"""What stands in the tables and was not stored so: said as damage, with what to do, wherever it is met."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rankmuster.store.errors import Damaged

REMEDY = (
    "`rankmuster history verify` names every such run, and removes them with --remove; or restore the history from a "
    "copy or an export"
)


@contextmanager
def stored(what: str) -> Iterator[None]:
    """Values out of the tables, made into what they stand for: what cannot be, was not stored so. Raises Damaged."""
    try:
        yield
    except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
        said = " ".join(str(error).split())[:200]
        raise Damaged(f"{what} in the history cannot be as it was stored ({said}): {REMEDY}") from error


def changed(record: str) -> Damaged:
    """A run that says something else than when it was stored."""
    return Damaged(f"the run {record[:19]} in the history is not as it was stored: {REMEDY}")
