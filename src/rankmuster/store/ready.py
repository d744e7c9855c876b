"""An engine whose tables are there and of the version that this program works with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from sqlalchemy import Engine

from rankmuster.store import migrate
from rankmuster.store.engine import make_engine
from rankmuster.store.failures import told
from rankmuster.store.new_file import first
from rankmuster.store.place import Place

_T = TypeVar("_T")


def ready(place: Place, *, create: bool) -> Engine:
    """`create`: make it where there is none. Raises HistoryError; nothing is left open then."""
    with told(place, "opening it"):
        engine = make_engine(place, create=create)
    try:
        migrate.make_ready(engine, place, create=create)
    except BaseException:
        engine.dispose()
        raise
    return engine


def make_file(place: Place) -> None:
    """An empty one where there is no file yet; nobody ever meets one that is half made."""
    if place.file is not None:
        first(
            lambda beside: ready(replace(place, file=beside), create=True).dispose(),
            place.file,
            lambda: None,
            place.kind.word,
        )


def filled(place: Place, work: Callable[[Place], _T]) -> _T:
    """`work` at the place; where there is no file yet, the new one is there only when `work` ended well."""
    if place.file is None:
        return work(place)
    return first(lambda beside: work(replace(place, file=beside)), place.file, lambda: work(place), place.kind.word)


def upgrade(place: Place) -> tuple[str | None, str]:
    """Brings the tables up to date: (version before, None where there were none; version now)."""
    with told(place, "opening it"):
        engine = make_engine(place, create=False)
    try:
        return migrate.upgrade_asked(engine, place)
    finally:
        engine.dispose()
