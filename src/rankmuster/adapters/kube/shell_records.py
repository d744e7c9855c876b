"""Records that a script has printed, from its stream: names and contents, as far as they came. Pure.

A record ends where the next one begins; the last one of a stream that broke off is marked.
"""

from __future__ import annotations

from dataclasses import dataclass

MOST_NAME = 4096
"""Bytes of a record's name: a path (PATH_MAX)."""


class TooLong(Exception):
    """More came than is kept."""


@dataclass(frozen=True, slots=True)
class Record:
    """`whole`: whether another record followed it."""

    name: str
    data: bytes
    whole: bool = True


class Records:
    """Takes the pieces of a stream; what stands before the first boundary is dropped (a shell's greeting)."""

    def __init__(self, boundary: str, most_bytes: int, most_records: int) -> None:
        self._mark = f"\n--{boundary} ".encode()
        self._most, self._most_records = most_bytes, most_records
        self._buffer = bytearray(b"\n")
        self._size = 0
        self._name: str | None = None
        self._found: list[Record] = []
        self._looked = 0

    def __call__(self, data: bytes) -> None:
        """Raises TooLong, which lets the call end; what came before it is kept."""
        self._size += len(data)
        if self._size > self._most:
            raise TooLong(f"more than {self._most >> 20} MiB came")
        self._buffer += data
        while True:
            at = self._buffer.find(self._mark, self._looked)
            if at < 0:
                self._looked = max(len(self._buffer) - len(self._mark), 0)
                return
            end = self._buffer.find(b"\n", at + len(self._mark))
            if end < 0:
                self._looked = at
                if len(self._buffer) - at > MOST_NAME:
                    raise TooLong("the name of a record does not end")
                return
            self._close(bytes(self._buffer[:at]), whole=True)
            name = bytes(self._buffer[at + len(self._mark) : end][:MOST_NAME])
            self._name = name.decode("utf-8", "surrogateescape")
            del self._buffer[: end + 1]
            self._looked = 0
            if len(self._found) > self._most_records:
                raise TooLong(f"more than {self._most_records} records came")

    def _close(self, data: bytes, *, whole: bool) -> None:
        if self._name is not None:
            self._found.append(Record(self._name, data, whole))

    def end(self) -> tuple[Record, ...]:
        """All of them; call it once, at the end."""
        if self._name is not None and self._name != "end":
            self._close(bytes(self._buffer), whole=False)
            self._name = None
        return tuple(self._found)

    @property
    def complete(self) -> bool:
        """Whether the script came to its end."""
        return self._name == "end"
