"""Writes dumps as torch::jit::Pickler does: texts and frames in the memo, entries and lists not, numbers as short as
they can be."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any


class Frame:
    """A frame; the same object is the same memo index."""

    def __init__(self, name: str, filename: str, line: int) -> None:
        self.fields = {"name": name, "filename": filename, "line": line}


class TorchPickler:
    """One pickle of protocol 2."""

    def __init__(self) -> None:
        self.out = bytearray(b"\x80\x02")
        self.memo: dict[Any, int] = {}

    def dumps(self, value: Any) -> bytes:
        self.write(value)
        return bytes(self.out + b".")

    def write(self, value: Any) -> None:
        if value is None or isinstance(value, bool):
            self.out += {None: b"N", True: b"\x88", False: b"\x89"}[value]
        elif isinstance(value, int):
            self._number(value)
        elif isinstance(value, float):
            self.out += b"G" + struct.pack(">d", value)
        elif isinstance(value, (str, Frame)):
            self._shared(value)
        elif isinstance(value, dict):
            self.out += b"}("
            for key, item in value.items():
                self.write(key)
                self.write(item)
            self.out += b"u"
        else:
            self._sequence(value)

    def _sequence(self, value: Sequence[Any]) -> None:
        self.out += b"](" if isinstance(value, list) else b""
        for item in value:
            self.write(item)
        self.out += b"e" if isinstance(value, list) else bytes([0x84 + len(value)])

    def _number(self, value: int) -> None:
        if 0 <= value < 1 << 8:
            self.out += b"K" + bytes([value])
        elif 0 <= value < 1 << 16:
            self.out += b"M" + struct.pack("<H", value)
        elif -(1 << 31) <= value < 1 << 31:
            self.out += b"J" + struct.pack("<i", value)
        else:
            self.out += b"\x8a\x08" + struct.pack("<q", value)

    def _shared(self, value: str | Frame) -> None:
        if value in self.memo:
            index = self.memo[value]
            self.out += b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index)
            return
        if isinstance(value, Frame):
            self.write(value.fields)
        else:
            data = value.encode()
            self.out += b"X" + struct.pack("<I", len(data)) + data
        index = self.memo[value] = len(self.memo)
        self.out += b"q" + bytes([index]) if index < 256 else b"r" + struct.pack("<I", index)
