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
Unsigned: TypeAlias = NDArray[np.uint64]

WIDTHS = (1, 2, 4, 8)
MASK = (1 << 64) - 1
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
        return signed(unsigned(inner) + unsigned(beside))
    numbers = [_number(value) for value in rest]
    if kind == "s" and len(numbers) == 2:
        return _stepped(numbers[0], numbers[1], count)
    if kind == "n" and len(numbers) == 2:
        return signed(_unplaned(numbers[1], count, cursor) + np.uint64(numbers[0] & MASK))
    if kind == "d" and len(numbers) == 3 and count > 0:
        column_u = np.empty(count, np.uint64)
        column_u[0] = numbers[0] & MASK
        np.add(_unplaned(numbers[2], count - 1, cursor), np.uint64(numbers[1] & MASK), out=column_u[1:])
        return signed(np.cumsum(column_u, out=column_u))
    raise SummaryDamaged(f"a column of a form that is not known ({str(form)[:60]})")


def unpack_alike(forms: list[object], counts: list[int], cursor: Cursor) -> list[Ints]:
    """Columns that follow each other, as `unpack` gives them; of one form and length (full rings are) all at once."""
    alike = _alike(forms, counts)
    if alike is None:
        return [unpack(form, count, cursor) for form, count in zip(forms, counts, strict=True)]
    kind, numbers, width, count = alike
    held = count - (kind == "d")
    planes = np.frombuffer(cursor.take(width * held * len(forms)), dtype=np.uint8).reshape(len(forms), width, held)
    parts = np.ascontiguousarray(planes.transpose(0, 2, 1)).view(f"<u{width}")[:, :, 0]
    columns = np.empty((len(forms), count), np.uint64)
    np.add(parts, numbers[:, -1:], out=columns[:, count - held :], casting="unsafe")
    if kind == "d":
        columns[:, 0] = numbers[:, 0]
        np.cumsum(columns, axis=1, out=columns)
    return list(signed(columns))


def _alike(forms: list[object], counts: list[int]) -> tuple[object, Unsigned, int, int] | None:
    """(kind, one row of bases each, width, length) of columns that differ in their bases alone; None for others."""
    first = forms[0] if forms else None
    if not isinstance(first, list) or len(first) not in (3, 4) or first[0] != ("n" if len(first) == 3 else "d"):
        return None
    kind, width, count = first[0], first[-1], counts[0]
    for form, other in zip(forms, counts, strict=True):
        same = isinstance(form, list) and len(form) == len(first) and form[0] == kind and form[-1] == width
        if not same or other != count or count < 2:
            return None
    if width not in WIDTHS or isinstance(width, bool):
        return None
    numbers = [[_number(value) & MASK for value in form[1:-1]] for form in forms if isinstance(form, list)]
    return kind, np.array(numbers, np.uint64), int(width), count


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
    column *= np.uint64(step & MASK)
    column += np.uint64(base & MASK)
    return signed(column)


def _bits(count: int, cursor: Cursor) -> NDArray[np.bool_]:
    packed = np.frombuffer(cursor.take((count + 7) // 8), dtype=np.uint8)
    return np.unpackbits(packed, count=count).view(np.bool_)


def _unplaned(width: int, count: int, cursor: Cursor) -> Unsigned:
    if width not in WIDTHS:
        raise SummaryDamaged(f"numbers of {width} bytes")
    planes = np.frombuffer(cursor.take(width * count), dtype=np.uint8).reshape(width, count)
    if width == 1:
        return np.asarray(planes[0], dtype=np.uint64)
    numbers: Unsigned = np.ascontiguousarray(planes.T).view(f"<u{width}").ravel().astype(np.uint64, copy=False)
    return numbers


def unsigned(values: Ints) -> Unsigned:
    """The same bits, on which arithmetic is modulo 2**64."""
    return np.ascontiguousarray(values, dtype=np.int64).view(np.uint64)


def signed(values: Unsigned) -> Ints:
    """The reverse of `unsigned`."""
    column: Ints = values.view(np.int64)
    return column
