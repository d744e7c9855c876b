"""Synthetic dumps are written as torch writes real ones."""

from __future__ import annotations

import pickle
import pickletools
from typing import Any

import numpy as np
import pytest
from benchmarks.flight import world, write_pickle
from benchmarks.flight.calls import Pg
from benchmarks.flight.entry import EntryKind
from benchmarks.flight.layout import Group
from benchmarks.flight.recorder import COMPLETED, SCHEDULED, STARTED, Held
from benchmarks.flight.settings import Backend, Fault, FaultKind, Form, Look, Settings, Style
from benchmarks.flight.stacks import Frame
from captured_dumps import broken_rules, real_dumps

from rankmuster.evidence import flight_json, flight_pickle
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import FlightDump

REAL = (
    "healthy-tp2pp2",
    "hold-gil",
    "rank-stops-calling",
    "no-timing-stop",
    "order-swap",
    "pp-slow",
    "init-one-rank-never-joins",
)
MEGATRON = Settings(tp=2, pp=2, dp=2, ep=2, timing=True, entries=400, fault=Fault(FaultKind.HOST_STOP))
_STATES = {"scheduled": SCHEDULED, "started": STARTED, "completed": COMPLETED}


def synthetic(job: Settings, rank: int = 0) -> bytes:
    return world.make(job).dump(rank)


def opcodes(data: bytes) -> set[str]:
    return {op.name for op, _, _ in pickletools.genops(data)}


@pytest.mark.parametrize("case", REAL)
def test_real_dumps_written_again_are_the_same_bytes(case: str) -> None:
    dumps = real_dumps(case)
    assert dumps
    for data in dumps.values():
        assert written_again(data) == data


def written_again(data: bytes) -> bytes:
    """A real dump's values, through the generator's writer."""
    top = pickle.loads(data)
    numbers: dict[EntryKind, int] = {}
    held = [numbers.setdefault(kind_of(entry), len(numbers)) for entry in top["entries"]]
    columns: dict[str, Any] = {
        name: np.array([entry[key] or 0 for entry in top["entries"]], np.int64)
        for name, key in (
            ("record_id", "record_id"),
            ("seq", "collective_seq_id"),
            ("p2p", "p2p_seq_id"),
            ("op", "op_id"),
            ("created_ns", "time_created_ns"),
            ("started_ns", "time_discovered_started_ns"),
            ("completed_ns", "time_discovered_completed_ns"),
        )
    }
    return write_pickle.write(
        top["version"],
        top["pg_config"],
        ("comm_lib_version", top["comm_lib_version"]),
        {key: tuple(row.values()) for key, row in top["pg_status"].items()},
        list(numbers),
        Held(
            kind=np.array(held, np.int64),
            duration_ms=np.array([entry.get("duration_ms", np.nan) for entry in top["entries"]], np.float64),
            state=np.array([_STATES[entry["state"]] for entry in top["entries"]], np.int8),
            retired=np.array([entry["retired"] for entry in top["entries"]], np.bool_),
            status={},
            **columns,
        ),
    )


def kind_of(entry: dict[str, Any]) -> EntryKind:
    def shapes(key: str) -> tuple[tuple[int, ...], ...]:
        return tuple(map(tuple, entry[key]))

    return EntryKind(
        frames=tuple(Frame(**frame) for frame in entry.get("frames", ())),
        pg_id=entry["pg_id"],
        group=Group(Pg.WORLD, *entry["process_group"], members=()),
        profiling_name=entry["profiling_name"],
        ins=shapes("input_sizes"),
        in_dtypes=tuple(entry["input_dtypes"]),
        outs=shapes("output_sizes"),
        out_dtypes=tuple(entry["output_dtypes"]),
        is_p2p=entry["is_p2p"],
        timeout_ms=entry["timeout_ms"],
        thread=(entry["thread_name"], entry["thread_id"]),
    )


def test_the_rules_of_the_memo_hold_in_both() -> None:
    real = real_dumps("healthy-tp2pp2")
    assert [rule for data in real.values() for rule in broken_rules(data)] == []
    for rank in (0, 3, 7):
        assert broken_rules(synthetic(MEGATRON, rank)) == []


def test_no_opcode_that_torch_does_not_write() -> None:
    real = set().union(*(opcodes(data) for case in REAL for data in real_dumps(case).values()))
    # torch fetches beyond index 255 in the same two forms; the captured programs have fewer places in their code.
    assert opcodes(synthetic(MEGATRON)) - real <= {"LONG_BINGET", "LONG_BINPUT"}


def test_keys_stand_in_the_same_order_with_the_same_types() -> None:
    real = pickle.loads(next(iter(real_dumps("healthy-tp2pp2").values())))
    made = pickle.loads(synthetic(MEGATRON))
    assert list(made) == list(real)
    for table in ("pg_config", "pg_status"):
        assert {tuple(row) for row in made[table].values()} == {tuple(row) for row in real[table].values()}
    for state in ("completed", "started", "scheduled"):
        own = next(e for e in made["entries"] if e["state"] == state)
        other = next(e for e in real["entries"] if e["state"] == state)
        assert list(own) == list(other)
        assert {key: type(value) for key, value in own.items()} == {key: type(value) for key, value in other.items()}
        assert list(own["frames"][0]) == list(other["frames"][0])


def test_an_entry_of_thirty_frames_takes_about_250_bytes() -> None:
    data = synthetic(Settings(tp=8, pp=2, dp=2, ep=8, entries=2000, fault=Fault(FaultKind.HOST_STOP)))
    entries = pickle.loads(data)["entries"]
    assert len(entries) == 2000
    assert {len(entry["frames"]) for entry in entries} == {30}
    assert 200 < len(data) / len(entries) < 320
    assert "LONG_BINGET" in opcodes(data)


def test_stacks_are_shared_as_objects() -> None:
    entries = pickle.loads(synthetic(MEGATRON))["entries"]
    frames = {id(frame) for entry in entries for frame in entry["frames"]}
    assert len(frames) < len(entries)
    sites = {tuple(map(id, entry["frames"])) for entry in entries}
    assert len(sites) >= 8


@pytest.mark.parametrize("minor", [1, 4, 9, 10])
def test_older_schemas_lack_what_came_later(minor: int) -> None:
    top = pickle.loads(synthetic(Settings(tp=2, version=f"2.{minor}", entries=50, fault=Fault(FaultKind.HOST_STOP))))
    assert top["version"] == f"2.{minor}"
    assert ("pg_status" in top) == (minor >= 4)
    assert ("timeout_ms" in top["entries"][0]) == (minor >= 4)
    assert ("nccl_version" in top, "comm_lib_version" in top) == (minor == 9, minor == 10)
    assert ("thread_id" in top["entries"][0]) == (minor >= 9)


def test_both_forms_read_alike() -> None:
    job = Settings(tp=4, dp=2, ep=8, style=Style.SGLANG, timing=True, entries=200, frames=2, look=Look.LIVE)
    dumps = {}
    for form, reader in ((Form.PICKLE, flight_pickle.READER), (Form.JSON, flight_json.READER)):
        blob = Blob("flight/nccl_trace_rank_3", synthetic(Settings(**{**_plain(job), "form": form}), 3))
        assert reader.recognises(blob)
        (dump,) = reader.read(blob).observations
        assert isinstance(dump, FlightDump)
        dumps[form] = dump
    one, other = dumps[Form.PICKLE], dumps[Form.JSON]
    assert one.status == other.status
    for name in (
        "record_id",
        "seq",
        "p2p_seq",
        "op_id",
        "created_ns",
        "started_ns",
        "completed_ns",
        "state",
        "retired",
    ):
        assert np.array_equal(getattr(one.columns, name), getattr(other.columns, name)), name
    assert [one.columns.ops[op] for op in one.columns.op] == [other.columns.ops[op] for op in other.columns.op]


def _plain(job: Settings) -> dict[str, Any]:
    return {name: getattr(job, name) for name in Settings.__dataclass_fields__}


def test_gloo_has_no_table_no_events_and_no_messages() -> None:
    job = Settings(tp=2, pp=2, backend=Backend.GLOO, style=Style.VLLM, entries=200, look=Look.LIVE)
    top = pickle.loads(synthetic(job))
    assert top["pg_config"] == {"": {"name": "", "desc": "", "ranks": "[]"}}
    assert {entry["state"] for entry in top["entries"]} == {"scheduled"}
    assert {entry["retired"] for entry in top["entries"]} == {True, False}
    assert not any(entry["is_p2p"] for entry in top["entries"])
    assert all(entry["profiling_name"].startswith("gloo:") for entry in top["entries"])


def test_active_entries_only_are_all_but_the_completed() -> None:
    job = Settings(tp=2, pp=2, entries=100, fault=Fault(FaultKind.HOST_STOP))
    whole = pickle.loads(synthetic(job))["entries"]
    active = pickle.loads(synthetic(Settings(**{**_plain(job), "only_active": True})))["entries"]
    assert [e["record_id"] for e in active] == [e["record_id"] for e in whole if e["state"] != "completed"]
