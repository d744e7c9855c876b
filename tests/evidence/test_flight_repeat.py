"""Entries read many at a time without the native reader: no more than a few are walked, and all come out the same."""

from __future__ import annotations

import random
from typing import Any

import pytest
from flight_readers import read
from torch_pickler import Frame, TorchPickler

from rankmuster.evidence.flight_opcodes import walk
from rankmuster.evidence.flight_repeat import RepeatedEntries
from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.flight import FlightDump

FRAME = Frame("all_reduce", "distributed_c10d.py", 2700)


def entry(number: int, **fields: Any) -> dict[str, Any]:
    return {
        "frames": [FRAME] * 3, "record_id": number, "pg_id": 0, "process_group": ("0", "default_pg"),
        "collective_seq_id": number, "p2p_seq_id": 0, "op_id": number, "profiling_name": "nccl:all_reduce",
        "time_created_ns": 10**18 + number, "input_sizes": [[16, 4096]], "input_dtypes": ["Half"],
        "output_sizes": [[16, 4096]], "output_dtypes": ["Half"], "state": "completed",
        "time_discovered_started_ns": None, "time_discovered_completed_ns": 10**18 + number + 5, "retired": True,
        "timeout_ms": 600_000, "is_p2p": False, **fields,
    }  # fmt: skip


def dump(entries: list[dict[str, Any]]) -> bytes:
    return TorchPickler().dumps({"version": "2.10", "pg_config": {}, "entries": entries})


def walked(data: bytes) -> int:
    """Entries that were taken one at a time."""
    builder, count = ColumnBuilder(), 0

    def take(value: dict[Any, Any]) -> Any:
        nonlocal count
        if "record_id" not in value:
            return value
        count += 1
        builder.add(value)
        return True

    walk(data, take, RepeatedEntries(data, builder))
    return count


def test_few_entries_of_a_usual_dump_are_walked() -> None:
    data = dump([entry(number) for number in range(1000)])
    assert walked(data) < 10
    assert len(read(data).observations) == 1


def test_durations_come_and_go_with_the_entries_that_have_one() -> None:
    def timed(number: int) -> dict[str, Any]:
        made = entry(number)
        items = list(made.items())
        place = list(made).index("input_sizes")
        return dict([*items[:place], ("duration_ms", number / 7), *items[place:]]) if number % 3 else made

    data = dump([timed(number) for number in range(1000)])
    assert walked(data) < 30
    (found,) = read(data).observations
    assert isinstance(found, FlightDump)
    assert found.columns.duration_ms[4] == 4 / 7


@pytest.mark.parametrize("numbers", [[0, 255, 256, 65_535, 65_536, 2**31 - 1, 2**31, 2**62], [-1, -(2**31), -(2**40)]])
def test_numbers_of_all_widths(numbers: list[int]) -> None:
    entries = [entry(number, collective_seq_id=numbers[number % len(numbers)]) for number in range(200)]
    assert walked(dump(entries)) < 10
    (found,) = read(dump(entries)).observations
    assert isinstance(found, FlightDump)
    assert found.columns.seq[: len(numbers)].tolist() == numbers


def test_a_new_name_in_between_costs_the_entries_that_have_it() -> None:
    entries = [entry(number) for number in range(1000)]
    for number in range(100, 1000, 100):
        entries[number] = entry(number, profiling_name=f"nccl:op_{number}", frames=[Frame("new", "x.py", number)])
    assert walked(dump(entries)) < 40
    (found,) = read(dump(entries)).observations
    assert isinstance(found, FlightDump)
    assert len(found.columns.ops) == 10


def test_other_kinds_of_value_in_between() -> None:
    odd: list[Any] = [None, True, 1.5, "7", [], [[]], {"a": 1}, ("0",), -5, [["x"]]]
    chance = random.Random(3)
    keys = list(entry(0))
    for _ in range(40):
        entries = [entry(number) for number in range(60)]
        for _ in range(6):
            entries[chance.randrange(60)][chance.choice(keys)] = chance.choice(odd)
        read(dump(entries))


def test_a_group_keeps_the_last_number_it_had() -> None:
    entries = [entry(number, pg_id=number % 5) for number in range(103)]
    (found,) = read(dump(entries)).observations
    assert isinstance(found, FlightDump)
    assert [group.pg_id for group in found.columns.groups] == [102 % 5]


def test_a_memo_index_used_twice_changes_what_follows() -> None:
    data = dump([entry(number) for number in range(40)])
    keys = [b"h" + bytes([index]) for index in range(20)]
    place = data.index(b"u}(", len(data) // 2) + 1
    for key in keys:
        read(data[:place] + b"X\x05\x00\x00\x00otherq" + key[1:] + data[place:])
        read(data[:place] + b"}(X\x05\x00\x00\x00otherq" + key[1:] + b"Nu" + data[place:])


@pytest.mark.parametrize("items", [0, 7, 300, 301, 900])
def test_the_allowance_for_sizes_is_the_same(items: int) -> None:
    data = dump([entry(number, input_sizes=[[1, number % 3]]) for number in range(100)])
    built = []
    for repeats in (True, False):
        builder = ColumnBuilder()
        builder.items = items

        def take(value: dict[Any, Any], into: ColumnBuilder = builder) -> Any:
            if "record_id" in value:
                into.add(value)
                return True
            return value

        walk(data, take, RepeatedEntries(data, builder) if repeats else None)
        built.append((builder.call.tolist(), builder.sizes.values(), builder.items))
    assert built[0] == built[1]
