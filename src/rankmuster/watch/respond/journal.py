"""The record of what was begun and what ended: lines of JSON, each on the disk before what it announces is done.

It is what keeps a stop from being answered twice: after a crash or a restart of the watch, and by a second watch with
the same folder. Nobody shortens it; a stop takes 2 KiB.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.watch.respond.past import STOP, Entry, Key, Past, Phase, due_again, line, parse, past_of

NAME = "journal.jsonl"

READ_BYTES = 8 << 20
"""Of the record, at most its last so many bytes: some 4,000 stops."""

LOCK_SECONDS = 5.0
"""For the record's own lock, which others hold for the time of one write to the disk."""

POLL_SECONDS = 0.05


class NotRecorded(Exception):
    """It could not be written down, or not be read what was; the message says why."""


class Journal:
    """One folder's record. May be used from several threads, and by several programs at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def entries(self) -> list[Entry]:
        """All that can be read. Raises NotRecorded where there is a record and it cannot be."""
        try:
            with self._open(os.O_RDONLY) as descriptor:
                return self._read(descriptor)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise NotRecorded(self._why("read", error)) from error

    def past(self, key: Key) -> Past | None:
        """What was done of this incarnation. Raises NotRecorded."""
        return past_of(self.entries(), key)

    def claim(self, key: Key, now: float, again_seconds: float | None, name: Callable[[int], str]) -> tuple[Past, bool]:
        """The response that a stop of `key` belongs to, and whether it is a new one, which then is this caller's.

        `now`: unix seconds. `name`: what the folder of a new one shall be called, from its number.

        Raises NotRecorded: then nobody knows whether it was done before.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            with self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor, _locked(descriptor):
                past = past_of(self._read(descriptor), key)
                if past is not None and not due_again(past, now, again_seconds):
                    return past, False
                number = past.number + 1 if past is not None else 1
                folder = name(number)
                self._append(descriptor, Entry(key, number, STOP, Phase.BEGUN, now, folder))
                return Past(number, now, folder), True
        except OSError as error:
            raise NotRecorded(self._why("written", error)) from error

    def write(self, entry: Entry) -> None:
        """Puts it on the disk. Raises NotRecorded."""
        try:
            with self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT) as descriptor, _locked(descriptor):
                self._append(descriptor, entry)
        except OSError as error:
            raise NotRecorded(self._why("written", error)) from error

    @contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        descriptor = os.open(self.folder / NAME, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError(22, "it is no regular file")
            yield descriptor
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> list[Entry]:
        size = os.fstat(descriptor).st_size
        start = max(size - READ_BYTES, 0)
        data = os.pread(descriptor, min(size, READ_BYTES), start)
        lines = data.split(b"\n")
        found = (parse(one) for one in (lines[1:] if start else lines) if one)
        return [entry for entry in found if entry is not None]

    def _append(self, descriptor: int, entry: Entry) -> None:
        size = os.fstat(descriptor).st_size
        # A line that a crash or a full disk has cut must not take the next one with it.
        torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
        data = (b"\n" if torn else b"") + line(entry)
        written = os.write(descriptor, data)
        if written != len(data):
            raise OSError(28, "No space left on device")
        os.fsync(descriptor)

    def _why(self, what: str, error: OSError) -> str:
        return f"the record {self.folder / NAME} cannot be {what} ({error.strerror or error})"


@contextmanager
def _locked(descriptor: int) -> Iterator[None]:
    deadline = Deadline.after(LOCK_SECONDS)
    while not _try_lock(descriptor):
        if deadline.passed:
            raise OSError(11, f"somebody else has held its lock for {LOCK_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
    yield  # closing the file gives the lock back


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


class Hold:
    """The lock of one stop's folder: whoever has it is at work there. It ends with the last process that has it."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    def close(self) -> None:
        """Gives it back."""
        with contextlib.suppress(OSError):
            os.close(self.descriptor)


def hold(folder: Path, deadline: Deadline, stop: Callable[[], bool]) -> Hold | None:
    """Takes it, waiting until `deadline` or `stop`; None where somebody else has it still. Raises NotRecorded."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise NotRecorded(f"nothing can be written in {folder} ({error.strerror or error})") from error
    try:
        while not _try_lock(descriptor):
            if deadline.passed or stop():
                os.close(descriptor)
                return None
            time.sleep(min(POLL_SECONDS, max(deadline.remaining(), 0.001)))
    except OSError as error:
        os.close(descriptor)
        raise NotRecorded(f"{folder / 'lock'} cannot be locked ({error.strerror or error})") from error
    return Hold(descriptor)
