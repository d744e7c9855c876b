"""What is played obeys NCCL: checked on the dumps alone where they tell, on the played times where they do not."""

from __future__ import annotations

import pickle
from collections import defaultdict
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from benchmarks.flight import world
from benchmarks.flight.calls import Slot
from benchmarks.flight.play import NEVER
from benchmarks.flight.settings import START_NS, Fault, FaultKind, Look, Settings, Style, Where

LAYOUTS = (
    Settings(tp=4, pp=2, dp=2, ep=4, entries=300, frames=1),
    Settings(tp=2, pp=4, dp=2, style=Style.VLLM, entries=300, frames=1, timing=True),
    Settings(tp=4, dp=2, ep=8, style=Style.SGLANG, entries=300, frames=1),
)
HUNG = (
    Fault(FaultKind.HOST_STOP),
    Fault(FaultKind.GPU_STALL, where=Where.TP),
    Fault(FaultKind.NO_FINISH, where=Where.TP),
    Fault(FaultKind.SKIP, where=Where.TP),
    Fault(FaultKind.WRONG_SIZE, where=Where.TP, tolerated=2),
    Fault(FaultKind.TRANSPORT, where=Where.TP),
)


def of(job: Settings, **changes: Any) -> world.World:
    return world.make(replace(job, **changes))


def tops(made: world.World) -> dict[int, dict[str, Any]]:
    return {rank: pickle.loads(made.dump(rank)) for rank in made.ranks_with_dump}


@pytest.mark.parametrize("job", LAYOUTS, ids=lambda job: job.style.value)
@pytest.mark.parametrize("fault", [Fault(), *HUNG], ids=lambda fault: fault.kind.value)
def test_a_call_ends_only_when_every_member_has_it_at_the_head_of_its_stream(job: Settings, fault: Fault) -> None:
    made = of(job, fault=fault, look=Look.LIVE if fault.kind is FaultKind.NONE else Look.HUNG)
    played, plan = made.played, made.plan
    meetings: dict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
    for rank in range(job.ranks):
        numbers: dict[int, int] = defaultdict(int)
        for index, call in enumerate(plan.programs[plan.program_of[rank]].calls.tolist()):
            channel = int(plan.layout.channel[rank, plan.calls[call].slot])
            meetings[channel, numbers[channel]].append((rank, index))
            numbers[channel] += 1
    ended = 0
    for (channel, _), calls in meetings.items():
        members = plan.layout.members[channel]
        for rank, index in calls:
            finish = int(played.finished[rank, index])
            if finish == NEVER:
                continue
            ended += 1
            call = plan.calls[plan.programs[plan.program_of[rank]].calls[index]]
            awaited = [there for there in calls if not call.rooted or there[0] in (rank, members[0])]
            if call.rooted and rank == members[0]:
                awaited = [(rank, index)]
            assert call.rooted or len(calls) == len(members)
            assert all(int(played.started[there]) < finish for there in awaited)
    assert ended > 1000
    own = np.arange(job.ranks)
    for index in range(1, played.started.shape[1]):
        began = played.started[own, index] != NEVER
        assert (played.started[began, index] > played.finished[began, index - 1]).all()
        assert (played.enqueued[began, index] <= played.started[began, index]).all()


@pytest.mark.parametrize("job", LAYOUTS, ids=lambda job: job.style.value)
def test_no_host_is_further_ahead_than_it_may(job: Settings) -> None:
    played = of(job, ahead=8, look=Look.LIVE).played
    late = played.enqueued[:, 8:].astype(np.int64) > played.finished[:, :-8].astype(np.int64)
    assert late[played.finished[:, :-8] != NEVER].all()


@pytest.mark.parametrize("job", LAYOUTS, ids=lambda job: job.style.value)
@pytest.mark.parametrize("seed", range(3))
def test_dumps_of_a_moving_job_agree_with_each_other(job: Settings, seed: int) -> None:
    found = tops(of(job, look=Look.LIVE, seed=seed))
    calls: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    members = {row["name"]: eval_ranks(row["ranks"]) for top in found.values() for row in top["pg_config"].values()}
    tail = moving = 0
    for rank, top in found.items():
        moving += any(e["state"] == "completed" and not e["retired"] for e in top["entries"])
        numbers = [e["record_id"] for e in top["entries"]]
        assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        for entry in top["entries"]:
            if not entry["is_p2p"] and entry["input_sizes"]:
                calls[entry["process_group"][0], entry["collective_seq_id"]][rank] = entry
    assert moving > job.ranks // 2, "a sweep can have been just now, but not on all"
    for (name, _), own in calls.items():
        ops = {entry["profiling_name"] for entry in own.values()}
        assert len(ops) == 1
        if "broadcast" in next(iter(ops)) or "coalesced" in next(iter(ops)):
            continue
        done = [entry for entry in own.values() if entry["state"] == "completed"]
        tail += len(own) < len(members[name])
        for entry in done:
            for other in own.values():
                assert other["time_created_ns"] < entry["time_discovered_completed_ns"]
    assert tail, "one look at a moving job always has a tail"


def eval_ranks(text: str) -> list[int]:
    return [int(number) for number in text.strip("[]").split(", ")]


def test_no_dump_of_a_hung_job_holds_what_is_completed_and_not_retired() -> None:
    for top in tops(of(LAYOUTS[0], fault=Fault(FaultKind.HOST_STOP))).values():
        assert not [e for e in top["entries"] if e["state"] == "completed" and not e["retired"]]


def test_after_the_end_of_work_everything_is_retired() -> None:
    for top in tops(of(LAYOUTS[1], look=Look.IDLE)).values():
        assert {e["state"] for e in top["entries"]} == {"completed"}
        assert {e["retired"] for e in top["entries"]} == {True}
        assert all(
            row["last_enqueued_collective"] == row["last_completed_collective"] for row in top["pg_status"].values()
        )


def test_started_is_known_with_timing_only() -> None:
    for timing in (False, True):
        top = tops(of(LAYOUTS[0], timing=timing, fault=Fault(FaultKind.HOST_STOP)))[0]
        assert ("started" in {e["state"] for e in top["entries"]}) == timing
        assert any(row["last_started_collective"] > 0 for row in top["pg_status"].values()) == timing
        assert any("duration_ms" in e for e in top["entries"]) == timing


def test_children_of_a_batch_never_move_and_share_its_number() -> None:
    top = tops(of(LAYOUTS[0], look=Look.LIVE))[0]
    entries = top["entries"]
    closers = [i for i, e in enumerate(entries) if "coalesced" in e["profiling_name"] and i >= 2]
    assert closers
    for place in closers:
        end, child = entries[place], entries[place - 1]
        assert (end["input_sizes"], end["is_p2p"]) == ([], False)
        assert (child["state"], child["retired"]) == ("scheduled", False)
        number = "p2p_seq_id" if child["is_p2p"] else "collective_seq_id"
        assert child[number] == end[number]
        assert child["op_id"] == end["op_id"]


def test_uneven_exchanges_agree_per_peer() -> None:
    exchanged: dict[tuple[str, int], dict[int, dict[str, Any]]] = defaultdict(dict)
    for rank, top in tops(of(LAYOUTS[2], look=Look.IDLE)).items():
        for entry in top["entries"]:
            if entry["profiling_name"] == "nccl:all_to_all":
                exchanged[entry["process_group"][0], entry["collective_seq_id"]][rank] = entry
    whole = [own for own in exchanged.values() if len(own) == 8]
    assert whole
    for own in whole:
        assert len({str(entry["input_sizes"]) for entry in own.values()}) > 1, "they are uneven"
        for giver in range(8):
            for taker in range(8):
                assert own[giver]["input_sizes"][taker] == own[taker]["output_sizes"][giver]


def test_captured_graphs_leave_the_same_gap_on_every_rank() -> None:
    gaps: list[set[int]] = []
    for top in tops(of(LAYOUTS[2], look=Look.IDLE)).values():
        numbers = [e["collective_seq_id"] for e in top["entries"] if e["pg_id"] == 1]
        gaps.append({late for early, late in pairwise(numbers) if late - early == 4})
    assert all(gap & gaps[0] for gap in gaps)


def test_messages_outside_a_batch_carry_the_last_collectives_number() -> None:
    entries = tops(of(LAYOUTS[1], look=Look.IDLE))[5]["entries"]
    own = [e for e in entries if e["is_p2p"]]
    assert {e["profiling_name"].split()[0] for e in own} == {"nccl:send", "nccl:recv"}
    assert {e["collective_seq_id"] for e in own} == {0}, "the pipeline's group has no collective"
    assert [e["p2p_seq_id"] for e in own] == list(range(own[0]["p2p_seq_id"], own[0]["p2p_seq_id"] + len(own)))


def test_messages_through_the_default_group_take_its_collectives_number() -> None:
    made = of(LAYOUTS[1], world_messages=True, look=Look.IDLE)
    top = tops(made)[5]
    own = [e for e in top["entries"] if e["is_p2p"]]
    assert {e["process_group"][1] for e in own} == {"default_pg"}
    assert {e["profiling_name"] for e in own} == {"nccl:recv 5<-1", "nccl:send 5->9"}
    collectives = {e["collective_seq_id"] for e in top["entries"] if e["pg_id"] == 0 and not e["is_p2p"]}
    assert {e["collective_seq_id"] for e in own} & collectives, "they collide, as in life"
    assert len(top["pg_config"]) == len({e["process_group"][0] for e in top["entries"]})


def test_hosts_may_differ_in_how_far_ahead_they_are() -> None:
    made = of(LAYOUTS[0], ahead=40, ahead_differs=True, fault=Fault(FaultKind.TRANSPORT))
    waiting = (made.played.enqueued != NEVER).sum(axis=1) - (made.played.finished != NEVER).sum(axis=1)
    assert waiting.min() >= 1
    assert waiting.max() <= 40
    assert len(set(waiting.tolist())) > 5


def test_clocks_of_hosts_differ_and_looks_do_not() -> None:
    apart = of(LAYOUTS[0], clock_offset_s=5.0, ranks_per_host=4, look=Look.LIVE)
    firsts = [pickle.loads(apart.dump(rank))["entries"][-1]["time_created_ns"] for rank in range(16)]
    assert max(firsts) - min(firsts) > 1_000_000_000
    assert abs(apart.look_time(0) - apart.look_time(15)) < 1.0
    assert abs(apart.look_time(0) - START_NS / 1e9) < 10


def test_a_slow_rank_is_the_last_to_enqueue() -> None:
    made = of(LAYOUTS[2], look=Look.LIVE, fault=Fault(FaultKind.SLOW, rank=5, since=0.5, slow_us=2000))
    calls = made.plan.programs[0].calls
    tp = [
        i for i, c in enumerate(calls.tolist()) if made.plan.calls[c].slot is Slot.TP and not made.plan.calls[c].rooted
    ]
    waits = made.played.started[5, tp] - np.delete(made.played.started[4:8][:, tp], 1, axis=0).min(axis=0)
    half = len(tp) // 2
    assert np.median(waits[: half - 5]) < 200
    assert np.median(waits[half + 5 :]) > 1000


def test_the_same_settings_give_the_same_bytes() -> None:
    job = replace(LAYOUTS[0], fault=Fault(FaultKind.SKIP), missing=2, damaged=1, stale=1, seed=7)
    one, other = world.make(job), world.make(job)
    assert dict(one.files()) == dict(other.files())
    assert one.truth == other.truth
    assert one.manifest() == other.manifest()
    assert world.make(replace(job, seed=8)).truth != one.truth
