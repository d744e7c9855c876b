"""The lines of a metrics page that are worth parsing, picked out byte by byte while it comes in.

A vLLM page has 1100 lines of which thirty tell anything, an SGLang page with many labels megabytes. One compiled
expression looks at the first characters of each line; what does not match is never decoded, split or kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

MOST_KEPT = 2 << 20
"""Bytes of lines kept of one page: 64 replicas with all their series and buckets have 0.4 MiB."""

MOST_LINE = 65_536
"""Bytes of one line: a sample has some hundred; what has more is dropped, up to its end."""

MOST_NAMES = 4096
"""Names remembered of a page that is not known: of the largest pages, all."""

_NAME = re.compile(rb"\n[ \t]*([A-Za-z_:][A-Za-z0-9_:]{0,199})(?=[{ \t])")


_Node = dict[str, "_Node"]
"""Next character -> what may follow it; the empty string where a name may end."""


def wanted(names: Iterable[str], types: Iterable[str] = ()) -> re.Pattern[bytes]:
    """What finds samples of `names`, and the `# TYPE` lines of `types`, in bytes that begin with a line end.

    Names are folded into a tree, so that a line fails at its first character that no name has.
    """
    samples = _tree(names)
    kinds = _tree(types)
    either = [rb"[ \t]*" + samples + rb"[{ \t]"] if samples else []
    if kinds:
        either.append(rb"#[ \t]+TYPE[ \t]+" + kinds + rb"[ \t]")
    return re.compile(rb"\n((?:" + (b"|".join(either) or rb"(?!)") + rb")[^\n]*)")


def _tree(names: Iterable[str]) -> bytes:
    root: _Node = {}
    for name in names:
        node = root
        for character in name:
            node = node.setdefault(character, {})
        node[""] = {}
    return _folded(root)


def _folded(node: _Node) -> bytes:
    ways = [re.escape(one.encode()) + _folded(below) for one, below in node.items() if one]
    if not ways:
        return b""
    if len(ways) == 1 and "" not in node:
        return ways[0]
    return b"(?:" + b"|".join(ways) + b")" + (b"?" if "" in node else b"")


@dataclass(frozen=True, slots=True)
class Filtered:
    """`lines`: the wanted samples, each with its line end. `types`: name -> "counter", "gauge", ..., where asked for.

    `names`: all that the page has, where asked for. `size`: bytes of the page. `overflow`: more lines were wanted than
    are kept.
    """

    lines: bytes
    types: dict[str, str]
    names: frozenset[str]
    size: int
    overflow: bool


@dataclass(slots=True)
class PageFilter:
    """`pattern`: of `wanted`. `collect_names`: whether all names on the page are wanted too (slower).

    Give it the pieces of a page with `feed`, then ask `done`. A last line without its end is not believed: exporters
    end every line.
    """

    pattern: re.Pattern[bytes]
    collect_names: bool = False
    _rest: bytes = b"\n"
    _dropping: bool = False
    _kept: list[bytes] = field(default_factory=list)
    _kept_size: int = 0
    _size: int = 0
    _overflow: bool = False
    _names: set[str] = field(default_factory=set)

    def feed(self, piece: bytes) -> None:
        """Takes the next piece, cut anywhere."""
        self._size += len(piece)
        if self._dropping:
            end = piece.find(b"\n")
            if end < 0:
                return
            piece, self._rest, self._dropping = piece[end:], b"", False
        data = self._rest + piece
        last = data.rfind(b"\n")
        whole, self._rest = data[:last], data[last:]
        if whole:
            self._pick(whole)
        if len(self._rest) > MOST_LINE:
            self._rest, self._dropping = b"", True

    def _pick(self, whole: bytes) -> None:
        for line in self.pattern.findall(whole):
            if self._kept_size > MOST_KEPT:
                self._overflow = True
                break
            if len(line) <= MOST_LINE:
                self._kept.append(line)
                self._kept_size += len(line) + 1
        if self.collect_names and len(self._names) < MOST_NAMES:
            self._names.update(name.decode() for name in set(_NAME.findall(whole)))

    def done(self) -> Filtered:
        """What was picked out of the whole page."""
        types: dict[str, str] = {}
        samples = []
        for line in self._kept:
            fields = line.split() if line.startswith(b"#") else []
            if len(fields) > 3:
                types[fields[2].decode("ascii", "replace")] = fields[3].decode("ascii", "replace").lower()
            elif not fields:
                samples.append(line)
        samples.append(b"")
        return Filtered(b"\n".join(samples), types, frozenset(self._names), self._size, self._overflow)
