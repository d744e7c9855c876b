"""The kernel's ring buffer, followed from its end: each record that comes, with the time at which it came."""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node import kmsg

MOST_RECORDS = 5_000
"""Records read at one look, some tens of milliseconds; a kernel that writes more is passed over to the ring's end."""


@dataclass(frozen=True, slots=True)
class Records:
    """`lines`: (microseconds since boot, text), oldest first. `lost`: why some are missing, one phrase, None for none.

    `problem`: errno of what ended the reading, None where it ended because there was no more.
    """

    lines: tuple[tuple[int, str], ...] = ()
    lost: str | None = None
    problem: int | None = None


class Ring:
    """Raises OSError where it cannot be opened (dmesg_restrict, a container without the device)."""

    def __init__(self, path: Path) -> None:
        self._rest = b""
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
        try:
            os.lseek(self._descriptor, 0, os.SEEK_END)
        except OSError:
            os.close(self._descriptor)
            raise

    def read(self, deadline: Deadline) -> Records:
        """What has come since the last call; never waits for more."""
        found: list[tuple[int, str]] = []
        lost: str | None = None
        for _ in range(MOST_RECORDS):
            if deadline.passed:
                return Records(tuple(found), lost)
            try:
                data = os.read(self._descriptor, kmsg.RECORD)
            except BlockingIOError:
                return Records(tuple(found), lost)
            except OSError as error:
                if error.errno == errno.EPIPE:
                    # Overwritten before it was read: the next read goes on with the oldest that is left.
                    self._rest, lost = b"", "the kernel wrote faster than it was read: some of its lines were lost"
                    continue
                return Records(tuple(found), lost, error.errno)
            if not data:
                return Records(tuple(found), lost)
            *whole, self._rest = (self._rest + data).split(b"\n")
            self._rest = self._rest[-kmsg.RECORD :]
            found.extend(record for record in map(kmsg.record, whole) if record is not None)
        self._rest = b""
        with contextlib.suppress(OSError):
            os.lseek(self._descriptor, 0, os.SEEK_END)
        return Records(
            tuple(found), f"the kernel wrote more than {MOST_RECORDS} lines at once: what followed was passed over"
        )

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._descriptor)
