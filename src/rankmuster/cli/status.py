"""Exit statuses, and the error that carries one (DESIGN, "The verdict, as JSON")."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum


class ExitStatus(IntEnum):
    """0, 1 and 2 are answers; 3 says that there is none; 130 that somebody pressed Ctrl-C."""

    HEALTHY = 0
    FAULT = 1
    UNDECIDED = 2
    NO_ANSWER = 3
    INTERRUPTED = 130


class CommandError(Exception):
    """What the user asked for cannot be done; the message says what was tried, what came back and what to do."""


class InternalError(Exception):
    """A fault of our own while `doing`; the fault itself is the `__cause__`."""

    def __init__(self, doing: str) -> None:
        super().__init__(doing)
        self.doing = doing


@contextmanager
def doing(what: str) -> Iterator[None]:
    """Names the work of the block, so that an unexpected exception in it is reported with what was being done.

    Raises:
        InternalError: for every Exception but those that speak to the user already.
    """
    try:
        yield
    except (CommandError, InternalError, BrokenPipeError):
        raise
    except Exception as error:
        raise InternalError(what) from error
