"""The baseline's file: the same value comes back, and nothing that anybody wrote breaks the reader."""

from __future__ import annotations

import contextlib
import json
from functools import lru_cache
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build_slow import context_of, tensor_parallel
from rankmuster.diagnose.slow.baseline import add
from rankmuster.diagnose.slow.baseline_file import BaselineDamaged, dumps, loads
from rankmuster.diagnose.slow.measure import measure
from rankmuster.model.slow_baseline import SCHEMA, Baseline


@lru_cache(maxsize=1)
def baseline() -> Baseline:
    return add(None, measure(context_of(tensor_parallel(8, 4, steps=60))))


@lru_cache(maxsize=1)
def written() -> bytes:
    return dumps(baseline())


def changed(change: Any) -> bytes:
    plain = json.loads(written())
    change(plain)
    return json.dumps(plain).encode()


def test_it_comes_back_as_it_was() -> None:
    assert loads(written()) == baseline()
    assert dumps(loads(written())) == written()
    assert written().startswith(b'{"schema":"' + SCHEMA.encode())
    assert written().endswith(b"}\n")
    assert written().isascii()


def _unsorted(plain: Any) -> None:
    plain["operations"][0]["transfer"][0]["grid"].reverse()


def _negative(plain: Any) -> None:
    plain["operations"][0]["wait"][0]["grid"][0] = -1


def _short(plain: Any) -> None:
    plain["operations"][0]["transfer"][0]["grid"].pop()


def _twice(plain: Any) -> None:
    plain["operations"].append(plain["operations"][0])


def _uneven(plain: Any) -> None:
    plain["operations"][0]["wait"].clear()


def _windows(plain: Any) -> None:
    plain["windows"].clear()


def _backwards(plain: Any) -> None:
    plain["windows"][0]["end"] = 0


def _rank(plain: Any) -> None:
    plain["windows"][0]["waited"] = {"rank 3": 0.5}


def _grid(plain: Any) -> None:
    plain["grid"][3] = 0.33


def _schema(plain: Any) -> None:
    plain["schema"] = "rankmuster.flight-baseline/2"


def _infinite(plain: Any) -> None:
    plain["operations"][0]["transfer"][0]["grid"][-1] = float("inf")


def _huge(plain: Any) -> None:
    plain["operations"][0]["transfer"][0]["n"] = 10**40


def _none(plain: Any) -> None:
    plain["operations"][0]["transfer"][0]["n"] = 0


def _missing(plain: Any) -> None:
    del plain["surroundings"]


def _wrong_type(plain: Any) -> None:
    plain["operations"] = {"a": 1}


@pytest.mark.parametrize(
    "change",
    [
        *(_unsorted, _negative, _short, _twice, _uneven, _windows, _backwards, _rank, _grid, _schema),
        *(_infinite, _huge, _none, _missing, _wrong_type),
    ],
)
def test_what_cannot_be_is_refused_with_a_reason(change: Any) -> None:
    with pytest.raises(BaselineDamaged, match=r"old\.json cannot be used as a baseline: .*; save a new one"):
        loads(changed(change), "old.json")


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"null", b"[]", b"{}", b'{"schema": 3}', b"\xff\xfe", b"[" * 100_000, b"\x80\x02}."),
        *(written()[:-2], written() + b"x", b'{"schema":"' + SCHEMA.encode() + b'"}'),
    ],
)
def test_what_is_no_baseline_is_refused(data: bytes) -> None:
    with pytest.raises(BaselineDamaged):
        loads(data)


@settings(max_examples=150, deadline=None)
@given(place=st.integers(0, 1 << 20), byte=st.integers(0, 255))
def test_any_flipped_byte_is_read_or_refused(place: int, byte: int) -> None:
    data = bytearray(written())
    data[place % len(data)] = byte
    with contextlib.suppress(BaselineDamaged):
        loads(bytes(data))
