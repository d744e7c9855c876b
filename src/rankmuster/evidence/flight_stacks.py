"""Stacks of a dump as the native reader leaves them: a tree of frames, made into text when somebody asks for one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import numpy as np

NO_FILE = -1
"""In the column of files: the frame was a text by itself."""

Packed = tuple[bytes, bytes, bytes, bytes, bytes]
"""Texts of names and files, where each ends (u64), frames (3 x i64: name, file, line), the tree (2 x u32: frame,
caller + 1) and the innermost node of every stack (u32), as flight_scan.c writes them."""


class FrameTree(Sequence[tuple[str, ...]]):
    """Every distinct stack, innermost frame first, as "name file:line". Callers that stacks share are held once."""

    __slots__ = ("_packed",)

    def __init__(self, packed: Packed) -> None:
        self._packed = packed

    def __len__(self) -> int:
        return len(self._packed[4]) // 4

    @overload
    def __getitem__(self, index: int) -> tuple[str, ...]: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[tuple[str, ...], ...]: ...

    def __getitem__(self, index: int | slice) -> tuple[str, ...] | tuple[tuple[str, ...], ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(len(self))[index])
        number = range(len(self))[index]
        leaf = int.from_bytes(self._packed[4][4 * number : 4 * number + 4], "little")
        return tuple(map(self._frame, self._path(leaf)))

    def _path(self, node: int) -> list[int]:
        """Frames from a node to its outermost caller."""
        tree = self._packed[3]
        found = []
        after = node + 1
        while after:
            place = 8 * (after - 1)
            found.append(int.from_bytes(tree[place : place + 4], "little"))
            after = int.from_bytes(tree[place + 4 : place + 8], "little")
        return found

    def _frame(self, frame: int) -> str:
        name, file, line = np.frombuffer(self._packed[2], dtype=np.int64, count=3, offset=24 * frame).tolist()
        return self._text(name) if file == NO_FILE else f"{self._text(name)} {self._text(file)}:{line}"

    def _text(self, index: int) -> str:
        texts, ends = self._packed[:2]
        start = int.from_bytes(ends[8 * index - 8 : 8 * index], "little") if index else 0
        return texts[start : int.from_bytes(ends[8 * index : 8 * index + 8], "little")].decode()

    def __eq__(self, other: object) -> bool:
        """Equal to any sequence of the same stacks, a plain tuple too."""
        if not isinstance(other, (FrameTree, tuple)):
            return NotImplemented
        return tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]  # like other containers that are compared by their contents

    def __reduce__(self) -> tuple[type[FrameTree], tuple[Packed]]:
        return FrameTree, (self._packed,)
