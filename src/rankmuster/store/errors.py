"""What can go wrong with a history or journal, each said as what was tried, on what, what came back and what to do."""

from __future__ import annotations


class HistoryError(Exception):
    """It cannot be read or written; nothing was changed. The message is for people, without passwords."""


class StoreMissing(HistoryError):
    """SQLAlchemy, alembic, psycopg or pyarrow is not installed; the message names the extra that brings it."""


class Unreachable(HistoryError):
    """No such file or server, no right to it, or a wrong password."""


class NotAHistory(HistoryError):
    """It is no database, a damaged one, or one of something else."""


class Damaged(HistoryError):
    """A value in it is not as it was stored: changed by hand, or by a failing disk."""


class NewerHistory(HistoryError):
    """Its tables are of a newer version of this program."""


class OlderHistory(HistoryError):
    """Its tables are of an older version, and it is not upgraded unasked."""


class ReadOnly(HistoryError):
    """It can be read only, and something was to be written."""


class Full(HistoryError):
    """The disk, or what the database may take of it, is full."""


class Busy(HistoryError):
    """Others held it longer than was waited."""


class Conflict(HistoryError):
    """The same hash is stored with other content: what is stored never changes."""


class Refused(HistoryError):
    """What was to be stored is not sound: a time that is no number, a text where a number has to be."""


class LeaseLost(Exception):
    """Another runner has this instance now, or may have it: nothing was written, and nothing more may be done."""
