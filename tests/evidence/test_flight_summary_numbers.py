"""Columns in their narrowest form come back exactly, whatever they hold; forms that no writer makes are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankmuster.evidence.flight_summary_numbers import Cursor, SummaryDamaged, unpack, unpack_alike, unpack_floats
from rankmuster.evidence.flight_summary_pack import pack, pack_floats, pack_times

ANY = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1),
    st.integers(-3, 3),
    st.sampled_from([-(1 << 63), (1 << 63) - 1, 0, -1, 1795980207302543424]),
)


def there_and_back(values: list[int]) -> list[int]:
    pieces: list[bytes] = []
    form = pack(np.array(values, np.int64), pieces)
    cursor = Cursor(b"".join(pieces))
    column = unpack(form, len(values), cursor)
    cursor.finish()
    assert column.dtype == np.int64
    return column.tolist()


@given(st.lists(ANY, max_size=40))
def test_integers(values: list[int]) -> None:
    assert there_and_back(values) == values


@given(st.lists(st.lists(ANY, min_size=4, max_size=4), min_size=1, max_size=5))
def test_columns_of_one_form_at_once(columns: list[list[int]]) -> None:
    pieces: list[bytes] = []
    forms: list[object] = [pack(np.array(values, np.int64), pieces) for values in columns]
    cursor = Cursor(b"".join(pieces))
    found = unpack_alike(forms, [len(values) for values in columns], cursor)
    cursor.finish()
    assert [column.tolist() for column in found] == columns


@given(ANY, ANY, st.integers(0, 40))
def test_even_steps_need_no_bytes(base: int, step: int, count: int) -> None:
    values = [(base + step * place + (1 << 63)) % (1 << 64) - (1 << 63) for place in range(count)]
    pieces: list[bytes] = []
    form = pack(np.array(values, np.int64), pieces)
    assert pieces == []
    assert unpack(form, count, Cursor(b"")).tolist() == values


@given(st.lists(st.tuples(ANY, st.one_of(st.just(0), ANY)), max_size=40))
def test_times_that_may_be_unknown(pairs: list[tuple[int, int]]) -> None:
    created, ended = (np.array([pair[place] for pair in pairs], np.int64) for place in (0, 1))
    pieces: list[bytes] = []
    form = pack_times(ended, created, pieces)
    cursor = Cursor(b"".join(pieces))
    assert unpack(form, len(pairs), cursor, created).tolist() == ended.tolist()
    cursor.finish()


@given(st.lists(st.one_of(st.floats(width=64), st.floats(width=32), st.just(float("nan"))), max_size=40))
def test_durations(values: list[float]) -> None:
    pieces: list[bytes] = []
    column = np.array(values, np.float64)
    form = pack_floats(column, pieces)
    cursor = Cursor(b"".join(pieces))
    found = unpack_floats(form, len(values), cursor)
    cursor.finish()
    assert found.dtype == np.float64
    assert np.array_equal(found, column, equal_nan=True)
    assert np.array_equal(np.signbit(found[found == 0]), np.signbit(column[column == 0]))


def test_a_column_of_one_value_takes_no_memory() -> None:
    assert unpack(["s", 7, 0], 1000, Cursor(b"")).strides == (0,)
    assert unpack_floats(["m", ["s", 0, 0]], 1000, Cursor(b"")).strides == (0,)


@pytest.mark.parametrize(
    "form",
    [
        None,
        [],
        "s",
        {},
        ["s"],
        ["s", 1],
        ["s", 1, 2, 3],
        ["s", 1.5, 0],
        ["s", True, 0],
        ["s", 1 << 63, 0],
        ["n", 0, 3],
        ["n", 0, -1],
        ["n", 0, 1 << 62],
        ["n", 0, 8],
        ["d", 0, 0, 9],
        ["d", 0, "x", 1],
        ["m"],
        ["m", ["m", ["m", None]]],
        ["r", ["s", 0, 0]],
        ["x", 0, 0],
        [[], 0],
    ],
)
def test_forms_that_no_writer_makes(form: Any) -> None:
    with pytest.raises(SummaryDamaged):
        unpack(form, 10, Cursor(b"\x01" * 20))


@pytest.mark.parametrize("form", [None, ["f", 4], ["f", 2, ["s", 0, 0]], ["m", ["f", 8, None]], ["s", 0, 0], ["m", 3]])
def test_forms_of_durations_that_no_writer_makes(form: Any) -> None:
    with pytest.raises(SummaryDamaged):
        unpack_floats(form, 10, Cursor(b"\x01" * 20))


def test_bytes_left_over_are_damage() -> None:
    cursor = Cursor(b"abc")
    cursor.take(2)
    with pytest.raises(SummaryDamaged, match="1 bytes"):
        cursor.finish()
