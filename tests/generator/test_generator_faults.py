"""Each planted fault is to be seen in the dumps as it would be in life, and nothing else is."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmarks.flight import generate, world
from benchmarks.flight.grid import LAYOUTS, STOPS, points
from benchmarks.flight.score import Answer, Score, score
from benchmarks.flight.settings import Fault, FaultKind, Form, Look, Settings, Style, Where
from benchmarks.flight.truth import Truth

JOB = Settings(tp=4, pp=2, dp=2, ep=4, entries=300, frames=1, timing=True)
ROOT = Path(__file__).resolve().parents[2]


def planted(kind: FaultKind, where: Where = Where.TP, **changes: Any) -> world.World:
    return world.make(replace(JOB, fault=Fault(kind, where=where), **changes))


def entries_of(made: world.World, rank: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pickle.loads(made.dump(rank))["entries"]
    return found


def outstanding(made: world.World, rank: int) -> list[dict[str, Any]]:
    """Entries that have not ended, without the children of batches, which never do."""
    entries = entries_of(made, rank)
    batches = {(e["pg_id"], e["op_id"]) for e in entries if "coalesced" in e["profiling_name"]}
    return [
        e
        for e in entries
        if e["state"] != "completed"
        and not (e["input_sizes"] and any((e["pg_id"], e["op_id"] + n) in batches for n in range(3)))
    ]


def test_a_host_that_stops_has_nothing_outstanding_and_the_others_wait() -> None:
    made = planted(FaultKind.HOST_STOP)
    (guilty,) = made.truth.culprits
    assert outstanding(made, guilty) == []
    assert all(outstanding(made, rank) for rank in range(JOB.ranks) if rank != guilty)


def test_a_dead_rank_leaves_no_dump() -> None:
    made = planted(FaultKind.DEAD)
    (guilty,) = made.truth.culprits
    assert made.ranks_with_dump == [rank for rank in range(JOB.ranks) if rank != guilty]


def test_a_stalled_gpu_has_enqueued_what_its_peers_have_started() -> None:
    made = planted(FaultKind.GPU_STALL)
    (guilty,) = made.truth.culprits
    first = outstanding(made, guilty)[0]
    assert first["state"] == "scheduled"
    peers = [rank for rank in range(guilty // 4 * 4, guilty // 4 * 4 + 4) if rank != guilty]
    for rank in peers:
        same = next(e for e in entries_of(made, rank) if _number(e) == _number(first))
        assert same["state"] == "started"


def _number(entry: dict[str, Any]) -> tuple[int, int]:
    return entry["pg_id"], entry["collective_seq_id"]


def test_what_one_rank_does_not_finish_its_peers_have() -> None:
    made = planted(FaultKind.NO_FINISH)
    (guilty,) = made.truth.culprits
    first = outstanding(made, guilty)[0]
    assert first["state"] == "started"
    for rank in range(guilty // 4 * 4, guilty // 4 * 4 + 4):
        same = next(e for e in entries_of(made, rank) if _number(e) == _number(first))
        assert (same["state"] == "completed") == (rank != guilty)


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (FaultKind.WRONG_OP, "profiling_name"),
        (FaultKind.WRONG_SIZE, "input_sizes"),
        (FaultKind.WRONG_DTYPE, "input_dtypes"),
    ],
)
def test_one_call_differs(kind: FaultKind, key: str) -> None:
    made = planted(kind)
    (guilty,) = made.truth.culprits
    calls: dict[tuple[int, int], dict[int, Any]] = defaultdict(dict)
    for rank in range(guilty // 4 * 4, guilty // 4 * 4 + 4):
        for entry in entries_of(made, rank):
            if entry["pg_id"] == 1:
                calls[_number(entry)][rank] = entry[key]
    differing = [own for own in calls.values() if len({str(value) for value in own.values()}) > 1]
    assert len(differing) == 1
    odd = [rank for rank, value in differing[0].items() if list(differing[0].values()).count(value) == 1]
    assert odd == [guilty]


def test_a_transport_stall_is_nobodys() -> None:
    made = planted(FaultKind.TRANSPORT)
    assert made.truth.culprits == ()
    assert made.truth.may_be_silent
    rank = made.plan.at[0] if made.plan.at else 0
    first = outstanding(made, rank)[0]
    for peer in range(rank // 4 * 4, rank // 4 * 4 + 4):
        same = next(e for e in entries_of(made, peer) if _number(e) == _number(first))
        assert same["state"] == "started"


def test_old_half_and_absent_dumps_are_of_innocent_ranks() -> None:
    made = planted(FaultKind.HOST_STOP, missing=2, stale=2, damaged=2)
    told = made.truth
    unlucky = {*told.missing, *told.stale, *told.damaged}
    assert len(unlucky) == 6
    assert not unlucky & set(told.culprits)
    assert not set(told.missing) & set(made.ranks_with_dump)
    for rank in told.damaged:
        with pytest.raises((pickle.UnpicklingError, EOFError)):
            pickle.loads(made.dump(rank))
    fresh = entries_of(made, told.culprits[0])[-1]["time_created_ns"]
    for rank in told.stale:
        assert fresh - entries_of(made, rank)[-1]["time_created_ns"] > 86_400 * 10**9


def test_a_place_that_a_layout_lacks_is_said() -> None:
    with pytest.raises(ValueError, match="missing-send in ep"):
        planted(FaultKind.MISSING_SEND, Where.EP)
    with pytest.raises(ValueError, match="does not stand still"):
        world.make(replace(JOB, look=Look.HUNG))


def test_every_kind_has_points_in_the_grid() -> None:
    grid = list(points())
    assert {point.job.fault.kind for point in grid} == set(FaultKind)
    assert {point.layout for point in grid} == set(LAYOUTS)
    assert len({point.name for point in grid}) == len(grid)
    assert {kind.value for kind in STOPS} <= {point.kind for point in grid}


def truth(culprits: tuple[int, ...], *, silent: bool = False, fault: bool = True) -> Truth:
    return Truth("x", culprits, silent, False, fault, fault, (), (), (), (), "TP", 4)


@pytest.mark.parametrize(
    ("named", "fault", "right", "expected"),
    [
        ({2}, True, truth((2,)), Score.RIGHT),
        ({2, 3}, True, truth((2,)), Score.WRONG),
        ({3}, True, truth((2,)), Score.WRONG),
        (set(), True, truth((2,)), Score.NONE),
        (set(), True, truth((2,), silent=True), Score.RIGHT),
        ({2}, True, truth((2, 5)), Score.PARTLY),
        (set(), True, truth((), fault=False), Score.WRONG),
        (set(), False, truth((), silent=True, fault=False), Score.RIGHT),
    ],
)
def test_scores(named: set[int], fault: bool, right: Truth, expected: Score) -> None:
    assert score(Answer(frozenset(named), fault, ""), right) is expected
    assert score(Answer(None, fault, ""), right) is Score.CRASH


def test_a_lost_dump_makes_a_suspect() -> None:
    told = planted(FaultKind.DEAD).truth
    suspected = Answer(frozenset(), True, "", frozenset(told.culprits))
    assert score(suspected, told) is Score.RIGHT
    assert score(replace(suspected, suspects=frozenset()), told) is Score.NONE
    assert score(suspected, planted(FaultKind.HOST_STOP).truth) is Score.NONE


def test_the_command_writes_a_bundle_and_the_truth(tmp_path: Path) -> None:
    job = Settings(tp=4, dp=2, ep=8, style=Style.SGLANG, entries=120, frames=2, form=Form.JSON, seed=4, look_times=True)
    job = replace(job, fault=Fault(FaultKind.HOST_STOP, rank=3, where=Where.EP), missing=1)
    words = generate.command_of(job).split()
    out = str(tmp_path / "job")
    done = subprocess.run(
        [sys.executable, *(out if word == "OUT" else word for word in words[1:])],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )
    assert "8 ranks" in done.stdout
    made = world.make(job)
    told = json.loads((tmp_path / "job" / "truth.json").read_text())
    assert told["culprits"] == [3]
    written = {str(path.relative_to(tmp_path / "job" / "input")) for path in (tmp_path / "job").rglob("nccl_trace*")}
    assert written == {world.file_name(rank) for rank in made.ranks_with_dump}
    for rank in made.ranks_with_dump:
        assert (tmp_path / "job" / "input" / world.file_name(rank)).read_bytes() == made.dump(rank)
    manifest = json.loads((tmp_path / "job" / "input" / "manifest.json").read_text())
    assert set(manifest["look_times"]) == written


def test_one_nodes_dumps_can_be_written_alone(tmp_path: Path) -> None:
    made = planted(FaultKind.HOST_STOP)
    generate.write(made, tmp_path, range(8, 16))
    assert len(list((tmp_path / "input" / "flight").iterdir())) == 8
