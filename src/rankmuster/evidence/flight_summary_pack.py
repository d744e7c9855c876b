"""Columns into the narrowest of the forms that `flight_summary_numbers` lists."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from rankmuster.evidence.flight_summary_numbers import MASK, WIDTHS, Form, Unsigned, signed, unsigned
from rankmuster.model.flight import Floats, Ints


def pack(values: Ints, pieces: list[bytes]) -> Form:
    """The narrowest form of an integer column; its bytes are added to `pieces`."""
    count = len(values)
    if not count:
        return ["s", 0, 0]
    first = int(values[0])
    steps = _differences(values)
    if count == 1 or bool((steps == steps[0]).all()):
        return ["s", first, int(signed(steps)[0]) if count > 1 else 0]
    base, least = int(values.min()), int(signed(steps).min())
    offsets = unsigned(values) - np.uint64(base & MASK)
    changes = steps - np.uint64(least & MASK)
    if _cost(changes) < _cost(offsets):
        return ["d", first, least, _planes(changes, pieces)]
    return ["n", base, _planes(offsets, pieces)]


def pack_times(values: Ints, beside: Ints, pieces: list[bytes]) -> Form:
    """Times that may be unknown (0), by themselves or relative to `beside`, whichever is smaller."""
    unknown = values == 0
    if bool(unknown.all()):
        return ["s", 0, 0]
    known = _filled(values, unknown)
    relative = _filled(signed(unsigned(values) - unsigned(beside)), unknown)
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


def _planes(numbers: Unsigned, pieces: list[bytes]) -> int:
    highest = int(numbers.max())
    width = next(width for width in WIDTHS if highest < 1 << (8 * width))
    rows = numbers.astype(f"<u{width}").view(np.uint8).reshape(-1, width)
    pieces.append(np.ascontiguousarray(rows.T).tobytes())
    return width


def _differences(values: Ints) -> Unsigned:
    column = unsigned(values)
    return column[1:] - column[:-1]


def _cost(numbers: Unsigned) -> float:
    """Bits that the numbers need, about: what tells which of two forms compresses better."""
    return float(np.log2(numbers.astype(np.float64) + 1.0).sum())


def _size(values: Ints) -> float:
    """The cost of the cheaper of its forms."""
    if len(values) < 2:
        return 0.0
    steps = _differences(values)
    offsets = unsigned(values) - np.uint64(int(values.min()) & MASK)
    return min(_cost(offsets), _cost(steps - np.uint64(int(signed(steps).min()) & MASK)))


def _filled(values: Ints, unknown: NDArray[np.bool_]) -> Ints:
    """Unknown values replaced by the known one before them (at the start, by the first known)."""
    if not bool(unknown.any()):
        return values
    last = np.where(unknown, -1, np.arange(len(values)))
    np.maximum.accumulate(last, out=last)
    first = int(np.argmin(unknown))
    return values[np.where(last < 0, first, last)]
