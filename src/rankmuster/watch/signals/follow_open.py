"""One log by its descriptor: the whole lines that are new in it, whatever was truncated or rewritten meanwhile."""

from __future__ import annotations

import contextlib
import os

MAX_LINE = 64 << 10
"""Bytes of a line that are kept; the readers look at 16 KiB of it."""
_TAIL = 64
"""Bytes before the place read to that are looked at again: other bytes there are another text."""

Place = tuple[int, bytes]
"""To where a file was read, and the bytes before."""


class OpenFile:
    """One file by its descriptor."""

    def __init__(self, descriptor: int, offset: int, place: Place | None = None) -> None:
        status = os.fstat(descriptor)
        self.key = (status.st_dev, status.st_ino)
        self.offset = min(offset, status.st_size)
        self.quiet = 0
        self._written = status.st_mtime_ns
        self._descriptor = descriptor
        self._tail = b""
        self._partial = b""
        if place is not None and place[0] <= status.st_size:
            # Read to there before; that it is the same text still shows at the first look.
            self.offset, self._tail = place
            self._written = -1
            if self._other_text():
                self.offset = 0
        # Reading that begins within a line has to wait for the next one.
        self._cutting = self.offset > 0 and os.pread(descriptor, 1, self.offset - 1) not in (b"\n", b"\r", b"\0")
        self._remember()

    @property
    def place(self) -> Place:
        """To where it was read."""
        return self.offset, self._tail

    def take(self, most: int) -> tuple[bytes, int]:
        """(whole lines, bytes passed over). Raises OSError."""
        status = os.fstat(self._descriptor)
        size, written = status.st_size, status.st_mtime_ns
        before, self._written = self._written, written
        if size < self.offset or (written != before and self._other_text()):
            # Nothing before the first data was written: a writer that goes on behind the cut leaves a hole there.
            self.offset = self._first_data(size)
            self._partial, self._cutting = b"", False
            self._remember()
        fresh = size - self.offset
        skipped = max(fresh - most, 0)
        if skipped:
            self.offset += skipped
            self._partial, self._cutting = b"", True
        data = os.pread(self._descriptor, min(fresh, most), self.offset) if fresh > 0 else b""
        self.offset += len(data)
        self.quiet = 0 if data else self.quiet + 1
        if data:
            self._remember()
        return self._whole(data.replace(b"\0", b"")), skipped

    def rest(self) -> bytes:
        """The line that was never ended, as one that was."""
        partial, self._partial = self._partial, b""
        return partial + b"\n" if partial else b""

    def size(self) -> int:
        """Bytes. Raises OSError."""
        return os.fstat(self._descriptor).st_size

    def modified(self) -> int:
        """Nanoseconds at which it was last written. Raises OSError."""
        return os.fstat(self._descriptor).st_mtime_ns

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        with contextlib.suppress(OSError):
            os.close(descriptor)

    def _remember(self) -> None:
        length = min(_TAIL, self.offset)
        self._tail = os.pread(self._descriptor, length, self.offset - length)

    def _other_text(self) -> bool:
        return os.pread(self._descriptor, len(self._tail), self.offset - len(self._tail)) != self._tail

    def _first_data(self, size: int) -> int:
        try:
            return min(os.lseek(self._descriptor, 0, os.SEEK_DATA), size) if size > 0 else 0
        except OSError:  # a file system that cannot tell
            return 0

    def _whole(self, data: bytes) -> bytes:
        if not data:
            return b""
        if self._cutting:
            ends = [at for at in (data.find(b"\n"), data.find(b"\r")) if at >= 0]
            if not ends:
                return b""
            data, self._cutting = data[min(ends) + 1 :], False
        data = self._partial + data
        # A progress bar ends its steps with \r alone; whether one at the very end is half of \r\n shows later.
        cut = max(data.rfind(b"\n"), data.rfind(b"\r", 0, len(data) - 1)) + 1
        whole, self._partial = data[:cut], data[cut:]
        if len(self._partial) > MAX_LINE:
            whole, self._partial, self._cutting = whole + self._partial[:MAX_LINE] + b"\n", b"", True
        return whole
