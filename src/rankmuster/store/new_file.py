"""The file of a new history or journal: made beside its place and put there whole; nobody ever meets one half made.

An empty file at the place is then none that somebody is making, but one that was emptied.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from rankmuster.store.errors import Unreachable

_T = TypeVar("_T")

_BESIDE = ("", "-wal", "-shm", "-journal")


class MadeMeanwhile(Exception):
    """Another process put its file there first."""


@contextmanager
def made_beside(file: Path, word: str) -> Iterator[Path]:
    """Where to make it; when the block ends it is at `file`, or, where it raises, nothing is anywhere.

    Raises MadeMeanwhile, Unreachable.
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot(file, word, error) from error
    target = Path(os.path.realpath(file))  # a link to where it is to be
    beside = target.parent / f".{target.name[:100]}.{uuid.uuid4().hex[:12]}.new"
    try:
        yield beside
        try:
            _put(beside, target)
        except OSError as error:
            raise _cannot(file, word, error) from error
    finally:
        for end in _BESIDE:
            with suppress(OSError):
                beside.with_name(beside.name + end).unlink(missing_ok=True)


def _cannot(file: Path, word: str, error: OSError) -> Unreachable:
    return Unreachable(f"the {word} {file} cannot be opened: {error.strerror or error}")


def _put(beside: Path, target: Path) -> None:
    try:
        os.link(beside, target)  # never over one that is there
    except FileExistsError:
        raise MadeMeanwhile(str(target)) from None
    except OSError:  # no hard links on this file system
        if target.exists():
            raise MadeMeanwhile(str(target)) from None
        os.rename(beside, target)


def first(make: Callable[[Path], _T], file: Path, otherwise: Callable[[], _T], word: str) -> _T:
    """`make` it beside where there is none, `otherwise` where there is, or another process was faster. `word`: what
    messages call it."""
    if not os.path.lexists(file) or (file.is_symlink() and not file.exists()):
        try:
            with made_beside(file, word) as beside:
                return make(beside)
        except MadeMeanwhile:
            pass
    return otherwise()
