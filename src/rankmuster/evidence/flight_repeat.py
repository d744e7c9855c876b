"""Entries that only repeat what the memo knows, read many at a time by one regular expression.

After the first few entries of a dump every key, name and frame is a memo reference, and an entry is one of a few
sequences of keys with numbers between them. Such a sequence is learnt where it first stands whole, and compiled; what
it then matches is exactly what the walker would read there, for every opcode has one first byte and one length. What
differs in any way (a new literal, another kind of value) is left to the walker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rankmuster.evidence.flight_opcodes import piece
from rankmuster.evidence.flight_table import INTEGER_FIELDS, ZERO_WHEN_ABSENT, ColumnBuilder, cost_of, state_of
from rankmuster.model.flight import Floats, Ints

MIN_RUN = 8
"""Entries at a time: fewer are walked sooner than arrays are set up for them."""

FIRST_WINDOW = 1 << 13
"""Bytes looked at first behind an entry: little is lost if there is only one more."""

MAX_WINDOW = 1 << 22
"""Bytes looked at in one go where everything matched: what bounds the memory."""

MAX_SHAPES = 8
"""Sequences of keys learnt of one dump; torch writes two, with and without a duration."""

MAX_LESSONS = 256
"""Attempts to learn one, for a dump without any two entries alike."""

_REF = rb"(?:h.|j.{4})"
_NUMBER = rb"(?:K.|M..|J.{4}|\x8a\x08.{8}|N)"
_REFS = rb"\](?:\((?:j.{4})*(?:j.{4}|h.)*e|(?!\())"
_LIST = rb"\](?:\((?:(?:\](?:\((?:K.|M..|J.{4})*e|(?!\()))+|(?:j.{4}|h.)*)e|(?!\())"
_VALUES = (_REF + _REF + rb"\x86", _REF, _NUMBER, rb"[\x88\x89]", rb"G.{8}", _LIST)
"""Values of an entry without a literal. One that is of a kind is of that kind in all entries that are matched."""

_FIELD = re.compile(b"(" + _REF + b")(?:" + b"|".join(b"(" + value + b")" for value in _VALUES) + b")", re.DOTALL)

_WIDE = {key: name for name, key in INTEGER_FIELDS}
_DURATION = "duration_ms"
_OPCODES = ((0x4B, 1, "<u1", 1), (0x4D, 1, "<u2", 2), (0x4A, 1, "<i4", 4), (0x8A, 2, "<i8", 8))
"""Of numbers: opcode, bytes before the number, its type and width."""


class _Seen(dict[Any, int]):
    """Distinct values and their indexes, in order of appearance."""

    def __missing__(self, key: Any) -> int:
        self[key] = found = len(self)
        return found


@lru_cache(maxsize=256)  # ranks of one job mostly have their keys at the same memo indexes
def _compiled(keys: tuple[tuple[str, bytes, int], ...]) -> tuple[re.Pattern[bytes], tuple[str, ...]]:
    """A pattern for one entry with these keys (name, reference, kind of value), and what each of its groups is.

    A group is a number, the duration, the frames, or ("") the neighbours that take few values, keys and all. The last
    one is whatever follows that is no such entry.
    """
    parts: list[bytes] = []
    groups: list[str] = []
    open_group = False
    for name, reference, kind in keys:
        narrow = name not in _WIDE and name not in (_DURATION, "frames")
        if open_group and not narrow:
            parts.append(b")")
        key = re.escape(reference)
        if name in _WIDE:
            parts.append(key + b"(" + _NUMBER + b")")
        elif name == _DURATION:
            parts.append(b"(?:" + key + rb"(G.{8}|" + _NUMBER + b"))?")
        elif name == "frames":
            parts.append(b"(" + key + _REFS + b")")
        else:
            parts.append((b"" if open_group else b"(") + key + _VALUES[kind])
        if not (narrow and open_group):
            groups.append("" if narrow else name)
        open_group = narrow
    parts.append(b")" if open_group else b"")
    return re.compile(rb"\}\(" + b"".join(parts) + rb"u|([\s\S]+)", re.DOTALL), tuple(groups)


class RepeatedEntries:
    """What walk() asks behind every entry: takes those that follow into `builder`, as many as are alike."""

    def __init__(self, data: bytes, builder: ColumnBuilder) -> None:
        self._data = data
        self._builder = builder
        self._shapes: list[tuple[re.Pattern[bytes], tuple[str, ...]]] = []
        self._lessons = MAX_LESSONS
        self._window = FIRST_WINDOW
        self._until = 0  # entries up to there were seen to be too few
        self._kinds = _Kinds(builder)
        self._stacks: dict[bytes, int] = {}

    def __call__(self, position: int, memo: dict[int, Any]) -> tuple[int, int]:
        """The position behind the entries that were taken, and their number."""
        taken = 0
        if position < self._until:
            return position, 0
        while self._data[position : position + 2] == b"}(":
            behind, count = self._run(position, memo)
            if not count and not (self._learn(position, memo) and (found := self._run(position, memo))[1]):
                break
            if not count:
                behind, count = found
            position, taken = behind, taken + count
        return position, taken

    def _run(self, position: int, memo: dict[int, Any]) -> tuple[int, int]:
        end = min(len(self._data), position + self._window)
        for pattern, groups in reversed(self._shapes):
            rows = pattern.findall(self._data, position, end)
            rest = rows.pop()[-1] if rows and rows[-1][-1] else b""
            if len(rows) < MIN_RUN:
                self._until = max(self._until, end - len(rest) if rows else 0)
                self._window = FIRST_WINDOW
            elif self._take(rows, groups, memo):
                self._window = FIRST_WINDOW if len(rest) * 2 > end - position else MAX_WINDOW
                return end - len(rest), len(rows)
        return position, 0

    def _learn(self, position: int, memo: dict[int, Any]) -> bool:
        """Whether the entry at `position` has keys that were not learnt yet, and no literal."""
        if self._lessons <= 0 or len(self._shapes) >= MAX_SHAPES:
            return False
        self._lessons -= 1
        keys = []
        place = position + 2
        while (found := _FIELD.match(self._data, place)) is not None:
            reference = found[1]
            name = memo.get(int.from_bytes(reference[1:], "little"))
            if not isinstance(name, str):
                return False
            keys.append((name, reference, (found.lastindex or 0) - 2))
            place = found.end()
        names = {name for name, *_ in keys}
        if (
            self._data[place : place + 1] != b"u"
            or len(names) < len(keys)
            or not names >= {"record_id", "profiling_name"}
        ):
            return False
        shape = _compiled(tuple(keys))
        if shape in self._shapes:
            return False
        self._shapes.append(shape)
        return True

    def _take(self, rows: list[tuple[bytes, ...]], groups: tuple[str, ...], memo: dict[int, Any]) -> bool:
        """False, and nothing taken, where a reference leads nowhere or the allowance would not do."""
        columns = list(zip(*rows, strict=True))
        narrow = [columns[place] for place, name in enumerate(groups) if not name]
        try:
            stacks = self._frames(columns[groups.index("frames")], memo) if "frames" in groups else [-1] * len(rows)
            kinds = self._kinds.of(list(zip(*narrow, strict=True)), memo)
        except (KeyError, IndexError, TypeError, ValueError):
            return False
        if kinds is None:
            return False
        builder = self._builder
        for name, key in INTEGER_FIELDS:
            absent = 0 if name in ZERO_WHEN_ABSENT else -1
            numbers = _numbers(columns[groups.index(key)], absent) if key in groups else np.full(len(rows), absent)
            builder.integers[name].frombytes(numbers.tobytes())
        builder.call.frombytes(kinds[0].astype(np.int32).tobytes())
        builder.state.frombytes(kinds[1].astype(np.int8).tobytes())
        builder.retired += kinds[2].astype(np.int8).tobytes()
        builder.stack.frombytes(np.array(stacks, dtype=np.int32).tobytes())
        durations = columns[groups.index(_DURATION)] if _DURATION in groups else None
        builder.durations.frombytes((np.full(len(rows), np.nan) if durations is None else _reals(durations)).tobytes())
        return True

    def _frames(self, column: Sequence[bytes], memo: dict[int, Any]) -> list[int]:
        known = self._stacks
        fresh = {raw: piece(b"}(" + raw + b"u.", memo)["frames"] for raw in dict.fromkeys(column) if raw not in known}
        for raw, frames in fresh.items():
            known[raw] = self._builder.stack_of(frames)
        return list(map(known.__getitem__, column))


class _Kinds:
    """What entries share, by the bytes that say so."""

    def __init__(self, builder: ColumnBuilder) -> None:
        self._builder = builder
        self._seen = _Seen()
        self._values: list[Mapping[Any, Any]] = []
        self._costs: list[int] = []
        self._calls: list[tuple[int, int, bool]] = []  # call, state, retired

    def of(self, column: list[tuple[bytes, ...]], memo: dict[int, Any]) -> tuple[Ints, Ints, Ints] | None:
        """Call, state and retirement of every entry; None where the builder's allowance would not do for all."""
        kinds = list(map(self._seen.__getitem__, column))
        for spans in list(self._seen)[len(self._values) :]:
            values = piece(b"}(" + b"".join(spans) + b"u.", memo)
            self._values.append(values)
            self._costs.append(cost_of(values))
        which = np.array(kinds)
        builder = self._builder
        cost = int((np.bincount(which, minlength=len(self._costs)) * np.array(self._costs, dtype=np.int64)).sum())
        if cost > builder.items:
            return None
        left = builder.items - cost
        for values in self._values[len(self._calls) :]:
            call = builder.call_of(values)
            self._calls.append((call, int(state_of(values.get("state"))), values.get("retired") is True))
        builder.items = left
        last = np.full(len(self._calls), -1)
        last[which] = np.arange(len(which))  # of a kind that comes more than once the last one stays
        rows = list(builder.calls.index)
        for kind in np.argsort(last)[np.count_nonzero(last < 0) :].tolist():
            own, pg_id = rows[self._calls[kind][0]][:2]
            builder.last_pg_id[own] = pg_id
        table = np.array(self._calls, dtype=np.int64)[which]
        return table[:, 0], table[:, 1], table[:, 2]


def _split(column: Sequence[bytes]) -> tuple[Any, Ints, Any]:
    """All bytes of a column, where each number starts, and its opcode (0: nothing)."""
    # A byte behind each makes room for the opcode of an empty one.
    joined = np.frombuffer(b"\0".join(column) + b"\0", dtype=np.uint8)
    widths = np.fromiter(map(len, column), dtype=np.int64, count=len(column)) + 1
    starts = np.cumsum(widths) - widths
    return joined, starts, joined[starts]


def _numbers(column: Sequence[bytes], absent: int) -> Ints:
    """A column of opcodes with their numbers, as numbers."""
    if column[0] == column[-1] and column.count(column[0]) == len(column) > 1:
        return np.full(len(column), _numbers(column[:1], absent)[0], dtype=np.int64)
    for opcode, skip, kind, width in _OPCODES:
        if column[0][:1] == bytes([opcode]):
            # One opcode is one length: where it stands at every multiple of it, every number has it.
            flat = np.frombuffer(b"".join(column), dtype=np.uint8)
            if len(flat) == len(column) * (skip + width):
                square = flat.reshape(len(column), -1)
                if (square[:, 0] == opcode).all():
                    return np.ascontiguousarray(square[:, skip:]).view(kind)[:, 0].astype(np.int64)
    joined, starts, opcodes = _split(column)
    found = np.full(len(column), absent, dtype=np.int64)
    for opcode, skip, kind, width in _OPCODES:
        rows = np.flatnonzero(opcodes == opcode)
        if len(rows):
            places = starts[rows][:, None] + np.arange(skip, skip + width)
            found[rows] = np.ascontiguousarray(joined[places]).view(kind)[:, 0]
    return found


def _reals(column: Sequence[bytes]) -> Floats:
    """Durations; NaN where there is none, or none that can be."""
    joined, starts, opcodes = _split(column)
    found = np.full(len(column), np.nan)
    whole = np.flatnonzero(np.isin(opcodes, [opcode for opcode, *_ in _OPCODES]))
    if len(whole):
        found[whole] = _numbers([column[row] for row in whole.tolist()], 0)
    rows = np.flatnonzero(opcodes == 0x47)
    if len(rows):
        found[rows] = np.ascontiguousarray(joined[starts[rows][:, None] + np.arange(1, 9)]).view(">f8")[:, 0]
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(found) < 1e15, found, np.nan)
