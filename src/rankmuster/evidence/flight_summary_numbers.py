"""Columns of a flight summary as bytes: each column in the narrowest of a few forms, its bytes in planes.

Forms, as they stand in the header (all arithmetic is modulo 2**64, so that any 64-bit column comes back exactly):

- `["s", base, step]`: base + step * i; no bytes. A column of one value is step 0.
- `["n", base, width]`: base + an unsigned number of `width` bytes each.
- `["d", first, least, width]`: the first value, then differences: least + an unsigned number of `width` bytes each.
- `["m", form]`: one bit an entry, set where a value is unknown; there `form` repeats the value before.
- `["r", form]`: relative to another column (when an operation ended to when it was enqueued).
- `["f", width, form]`: floating point of 4 or 8 bytes, its bits as integers.

Numbers are little endian. The bytes of a column stand in planes, all lowest bytes first: high bytes repeat, and a
compressor sees that.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.flight import Floats, Ints

Form: TypeAlias = list[object]
_Unsigned: TypeAlias = NDArray[np.uint64]

WIDTHS = (1, 2, 4, 8)
_MASK = (1 << 64) - 1
_SIGN = 1 << 63


class SummaryDamaged(Exception):
    """The bytes are not what a writer makes; the message says what is wrong."""


class Cursor:
    """Takes a body's bytes in order; never more than there are."""

    def __init__(self, body: bytes) -> None:
        self._body = memoryview(body)
        self._at = 0

    def take(self, count: int) -> memoryview:
        """The next `count` bytes. Raises SummaryDamaged where there are fewer."""
        if not 0 <= count <= len(self._body) - self._at:
            raise SummaryDamaged(f"its columns need more bytes than the {len(self._body)} there are")
        self._at += count
        return self._body[self._at - count : self._at]

    def finish(self) -> None:
        """Raises SummaryDamaged where bytes are left over."""
        if self._at != len(self._body):
            raise SummaryDamaged(f"{len(self._body) - self._at} bytes belong to none of its columns")


def pack(values: Ints, pieces: list[bytes]) -> Form:
    """The narrowest form of an integer column; its bytes are added to `pieces`."""
    count = len(values)
    if not count:
        return ["s", 0, 0]
    first = int(values[0])
    steps = _differences(values)
    if count == 1 or bool((steps == steps[0]).all()):
        return ["s", first, int(_signed(steps)[0]) if count > 1 else 0]
    base, least = int(values.min()), int(_signed(steps).min())
    offsets = _unsigned(values) - np.uint64(base & _MASK)
    changes = steps - np.uint64(least & _MASK)
    if _cost(changes) < _cost(offsets):
        return ["d", first, least, _planes(changes, pieces)]
    return ["n", base, _planes(offsets, pieces)]


def pack_times(values: Ints, beside: Ints, pieces: list[bytes]) -> Form:
    """Times that may be unknown (0), by themselves or relative to `beside`, whichever is smaller."""
    unknown = values == 0
    if bool(unknown.all()):
        return ["s", 0, 0]
    known = _filled(values, unknown)
    relative = _filled(_signed(_unsigned(values) - _unsigned(beside)), unknown)
    alone: list[bytes] = []
    related: list[bytes] = []
    forms: tuple[Form, Form] = (pack(known, alone), ["r", pack(relative, related)])
    form, own = (forms[0], alone) if _size(known) <= _size(relative) else (forms[1], related)
    if bool(unknown.any()):
        form = ["m", form]
        pieces.append(np.packbits(unknown).tobytes())
    pieces += own
    return form


def pack_floats(values: Floats, pieces: list[bytes]) -> Form:
    """Durations; NaN is unknown. Exact: 4 bytes only where these hold the very value."""
    unknown = np.isnan(values)
    if bool(unknown.all()):
        return ["m", ["s", 0, 0]] if len(values) else ["s", 0, 0]
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
    narrow = bool(((short.astype(np.float64) == values) | unknown).all())
    bits = short.view(np.uint32).astype(np.int64) if narrow else np.ascontiguousarray(values).view(np.int64)
    some = bool(unknown.any())
    if some:
        pieces.append(np.packbits(unknown).tobytes())
        bits = _filled(bits, unknown)
    form: Form = ["f", 4 if narrow else 8, pack(bits, pieces)]
    return ["m", form] if some else form


def unpack(form: object, count: int, cursor: Cursor, beside: Ints | None = None) -> Ints:
    """The column of `count` values; a column of one value is that value, broadcast. Raises SummaryDamaged."""
    kind, *rest = _parts(form)
    if kind == "m":
        unknown = _bits(count, cursor)
        column = np.array(unpack(rest[0] if len(rest) == 1 else None, count, cursor, beside))
        column[unknown] = 0
        return column
    if kind == "r":
        if beside is None:
            raise SummaryDamaged("a column stands relative to none")
        inner = unpack(rest[0] if len(rest) == 1 else None, count, cursor)
        return _signed(_unsigned(inner) + _unsigned(beside))
    numbers = [_number(value) for value in rest]
    if kind == "s" and len(numbers) == 2:
        return _stepped(numbers[0], numbers[1], count)
    if kind == "n" and len(numbers) == 2:
        return _signed(_unplaned(numbers[1], count, cursor) + np.uint64(numbers[0] & _MASK))
    if kind == "d" and len(numbers) == 3 and count > 0:
        column_u = np.empty(count, np.uint64)
        column_u[0] = numbers[0] & _MASK
        np.add(_unplaned(numbers[2], count - 1, cursor), np.uint64(numbers[1] & _MASK), out=column_u[1:])
        return _signed(np.cumsum(column_u, out=column_u))
    raise SummaryDamaged(f"a column of a form that is not known ({str(form)[:60]})")


def unpack_floats(form: object, count: int, cursor: Cursor) -> Floats:
    """As `unpack`, for `pack_floats`."""
    kind, *rest = _parts(form)
    if form == ["m", ["s", 0, 0]] or (kind == "s" and not count):
        return np.broadcast_to(np.float64("nan"), count)
    unknown = None
    if kind == "m":
        unknown = _bits(count, cursor)
        kind, *rest = _parts(rest[0] if len(rest) == 1 else None)
    if kind != "f" or len(rest) != 2 or rest[0] not in (4, 8):
        raise SummaryDamaged(f"a column of a form that is not known ({str(form)[:60]})")
    bits = unpack(rest[1], count, cursor)
    if rest[0] == 4:
        with np.errstate(invalid="ignore"):  # a signalling NaN, of bytes that no writer made
            values = bits.astype(np.uint32).view(np.float32).astype(np.float64)
    else:
        values = np.array(bits).view(np.float64)
    if unknown is not None:
        values[unknown] = np.nan
    return values


def _parts(form: object) -> list[object]:
    if not isinstance(form, list) or not 2 <= len(form) <= 4:
        raise SummaryDamaged(f"a column of a form that is not known ({str(form)[:60]})")
    return form


def _number(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -_SIGN <= value < _SIGN:
        raise SummaryDamaged(f"{str(value)[:40]!r} stands where a 64-bit number should")
    return value


def _stepped(base: int, step: int, count: int) -> Ints:
    if step == 0:
        return np.broadcast_to(np.int64(base), count)
    column = np.arange(count, dtype=np.uint64)
    column *= np.uint64(step & _MASK)
    column += np.uint64(base & _MASK)
    return _signed(column)


def _bits(count: int, cursor: Cursor) -> NDArray[np.bool_]:
    packed = np.frombuffer(cursor.take((count + 7) // 8), dtype=np.uint8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def _unplaned(width: int, count: int, cursor: Cursor) -> _Unsigned:
    if width not in WIDTHS:
        raise SummaryDamaged(f"numbers of {width} bytes")
    planes = np.frombuffer(cursor.take(width * count), dtype=np.uint8).reshape(width, count)
    if width == 1:
        return np.asarray(planes[0], dtype=np.uint64)
    numbers: _Unsigned = np.ascontiguousarray(planes.T).view(f"<u{width}").ravel().astype(np.uint64, copy=False)
    return numbers


def _planes(numbers: _Unsigned, pieces: list[bytes]) -> int:
    highest = int(numbers.max())
    width = next(width for width in WIDTHS if highest < 1 << (8 * width))
    rows = numbers.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    pieces.append(np.ascontiguousarray(rows.T).tobytes())
    return width


def _unsigned(values: Ints) -> _Unsigned:
    return np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)


def _signed(values: _Unsigned) -> Ints:
    column: Ints = values.view(np.int64)
    return column


def _differences(values: Ints) -> _Unsigned:
    column = _unsigned(values)
    return column[1:] - column[:-1]


def _cost(numbers: _Unsigned) -> float:
    """Bits that the numbers need, about: what tells which of two forms compresses better."""
    return float(np.log2(numbers.astype(np.float64) + 1.0).sum())


def _size(values: Ints) -> float:
    """The cost of the cheaper of its forms."""
    if len(values) < 2:
        return 0.0
    steps = _differences(values)
    offsets = _unsigned(values) - np.uint64(int(values.min()) & _MASK)
    return min(_cost(offsets), _cost(steps - np.uint64(int(_signed(steps).min()) & _MASK)))


def _filled(values: Ints, unknown: NDArray[np.bool_]) -> Ints:
    """Unknown values replaced by the known one before them (at the start, by the first known)."""
    if not bool(unknown.any()):
        return values
    last = np.where(unknown, -1, np.arange(len(values)))
    np.maximum.accumulate(last, out=last)
    first = int(np.argmin(unknown))
    return values[np.where(last < 0, first, last)]
