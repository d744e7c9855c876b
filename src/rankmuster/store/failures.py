"""What SQLite and PostgreSQL say when something fails, in words for the user, with what to do and no password.

SQLite's errors are told by their texts (`sqlite3_errstr`; the codes reach Python from 3.11 on only), PostgreSQL's by
SQLSTATE (appendix A of its manual).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rankmuster.store.errors import (
    Busy,
    Full,
    HistoryError,
    NotAHistory,
    ReadOnly,
    Refused,
    StoreMissing,
    Unreachable,
)
from rankmuster.store.place import Place

_SQLITE: tuple[tuple[str, type[HistoryError], str], ...] = (
    ("file is not a database", NotAHistory, "it is no SQLite database; name another file"),
    (
        "malformed",
        NotAHistory,
        "it is damaged; restore it from {restore}, or save what is left with `sqlite3 FILE .recover`",
    ),
    ("full", Full, "nothing of this was stored; make room and run it again"),
    ("readonly", ReadOnly, "it can be read only; nothing was stored"),
    ("read-only", ReadOnly, "it can be read only; nothing was stored"),
    ("locked", Busy, "another process has held it for too long; nothing was stored, run it again"),
    ("unable to open", Unreachable, "it cannot be opened; look at the rights of the file and its folder"),
    ("constraint failed", Refused, "what was brought contradicts itself; nothing was stored"),
    ("i/o error", Full, "the disk failed or is full; nothing of this was stored"),
)

_POSTGRES: tuple[tuple[str, type[HistoryError], str], ...] = (
    ("28", Unreachable, "the server refused this user or password; give them in the URL, ~/.pgpass or PGPASSWORD"),
    ("3D", Unreachable, "there is no such database on that server; make it with createdb"),
    ("42501", ReadOnly, "this user has no right to do it; grant it, or use another"),
    ("25006", ReadOnly, "it can be read only (a standby?); nothing was stored"),
    ("53", Full, "the server is out of disk, memory or connections; nothing was stored"),
    ("57014", Busy, "the server cancelled it; nothing was stored"),
    ("57", Unreachable, "the server is shutting down or starting; nothing was stored"),
    ("55P03", Busy, "others have held it for too long; nothing was stored"),
    ("40", Busy, "it collided with another writer; nothing was stored, run it again"),
    ("XX", NotAHistory, "the server reports damage in its own files; look at its log"),
    ("23", Refused, "what was brought contradicts itself; nothing was stored"),
    ("22", Refused, "the database refused a value; nothing was stored"),
)


@contextmanager
def told(place: Place, doing: str) -> Iterator[None]:
    """Turns what the databases raise within the block into a HistoryError. `doing`: "reading the runs"."""
    try:
        yield
    except HistoryError:
        raise
    except ImportError as error:
        raise missing(error, place.kind.word) from error
    except Exception as error:
        told_as = _told(error, place, doing)
        if told_as is None:
            raise
        raise told_as from error


def missing(error: ImportError, word: str = "history") -> StoreMissing:
    """Which extra brings what cannot be imported."""
    name = (error.name or str(error)).partition(".")[0]
    extra = {"psycopg": "postgres", "pyarrow": "parquet"}.get(name, "history")
    return StoreMissing(
        f"the {word} needs {name}, which cannot be imported ({error}): pip install 'rankmuster[{extra}]'"
    )


def _told(error: Exception, place: Place, doing: str) -> HistoryError | None:
    """None for what is no failure of a database."""
    import sqlalchemy.exc

    original = getattr(error, "orig", None) or error
    driver = type(original).__module__.partition(".")[0]
    said = " ".join(str(original).split())
    for secret in place.secrets:
        said = said.replace(secret, "***")
    where = f"{doing} failed on {place.called}"
    if driver == "sqlite3":
        for text, kind, advice in _SQLITE:
            if text in said.lower():
                advice = advice.replace("{restore}", place.kind.restore)
                return kind(f"{where}: {advice} (SQLite: {said})")
        return HistoryError(f"{where} (SQLite: {said})")
    if driver == "psycopg":
        state = getattr(original, "sqlstate", None) or ""
        for prefix, kind, advice in _POSTGRES:
            if state.startswith(prefix):
                return kind(f"{where}: {advice} (PostgreSQL: {said})")
        if not state and type(original).__name__ in ("OperationalError", "ConnectionTimeout", "InterfaceError"):
            refused = any(word in said for word in ("password", "authentication", "no pg_hba.conf"))
            advice = (
                _POSTGRES[0][2] if refused else "the server did not answer; look whether it runs and the URL is right"
            )
            if "does not exist" in said:
                advice = _POSTGRES[1][2] if "database" in said else _POSTGRES[0][2]
            return Unreachable(f"{where}: {advice} (PostgreSQL: {said})")
        return HistoryError(f"{where} (PostgreSQL: {said})")
    if isinstance(error, (sqlalchemy.exc.ArgumentError, sqlalchemy.exc.NoSuchModuleError)):
        return Unreachable(f"{place.called} is no URL that can be used: postgresql://user@host/database")
    if isinstance(error, sqlalchemy.exc.TimeoutError):
        return Busy(f"{where}: no connection became free ({said})")
    return None
