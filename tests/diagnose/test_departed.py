"""A rank that is gone while its peers live and wait went first; several at once, or one after an alarm, did not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from build_evidence import (
    HOST,
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    culprits,
    even,
    flat_pages,
    pid,
    ras_json,
    said,
    samples,
    steady_pages,
    verdict_of,
)

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, FaultClass, Progress, Subkind
from rankmuster.model.verdict import Verdict

LOOK = T0 + 20
WORLD = 4
ALARM = (
    "[rank{rank}]:[E{when} ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=751, OpType=ALLREDUCE, NumelIn=65536, NumelOut=65536, Timeout(ms)=10000) ran for 10001 "
    "milliseconds before timing out.\n"
)


def instance(states: Mapping[int, str], codes: Mapping[int, int] | None = None) -> Blob:
    """`instance.json` as a collector writes it."""
    processes = [
        {
            "rank": rank,
            "pid": pid(rank),
            "host": HOST,
            "gpu": rank,
            "exit_code": (codes or {}).get(rank),
            "exited_at": None,
            "state": states.get(rank, "S"),
        }
        for rank in range(WORLD)
    ]
    document = {"instance": "llm-0", "world_size": WORLD, "last_look": LOOK, "processes": processes}
    return Blob("instance.json", json.dumps(document).encode())


def node(states: Mapping[int, Sequence[str]], codes: Mapping[int, int] | None = None) -> Blob:
    """`platform/node.json`: two looks, 3 s apart, the last one at LOOK."""
    tasks = []
    for rank in range(WORLD):
        looks: list[dict[str, Any]] = [{"state": state} for state in states.get(rank, ("S", "S"))]
        if codes and rank in codes:
            looks[-1]["exit_code"] = codes[rank]
        tasks.append({"pid": pid(rank), "rank": rank, "role": "worker", "looks": looks})
    document = {"schema": "rankmuster.node/1", "host": HOST, "looks": [LOOK - 3, LOOK], "tasks": tasks}
    return Blob("platform/node.json", json.dumps(document).encode())


def spinning(gone: int = 2) -> Blob:
    states = {rank: IDLE if rank == gone else SPIN for rank in range(WORLD)}
    return samples([(6, dict.fromkeys(range(WORLD), MOVE)), (14, states)])


def alarm(at: str = "1129 21:06:55.000000001") -> Blob:
    return Blob("logs/rank0.log", ALARM.format(rank=0, when=at).encode())


def lost(verdict: Verdict, subkind: Subkind = Subkind.EXITED) -> bool:
    return (verdict.class_, verdict.subclass, culprits(verdict)) == (
        FaultClass.PROCESS_OR_DEVICE_LOST,
        subkind,
        [2],
    )


STALLED = flat_pages(T0, 20, 500.0)


def test_one_gone_of_a_stopped_instance_is_the_culprit() -> None:
    verdict = verdict_of([instance({2: "X"}), node({2: ("gone", "gone")}), *STALLED])
    assert lost(verdict)
    assert verdict.confidence is Confidence.LIKELY
    assert "before any of the others" in said(verdict)


@pytest.mark.parametrize("state", ["X", "Z"])
def test_the_instances_own_list_is_enough(state: str) -> None:
    assert lost(verdict_of([instance({2: state}), *STALLED]))


def test_spinning_gpus_make_it_sure() -> None:
    verdict = verdict_of([instance({2: "X"}), node({2: ("S", "gone")}), spinning()])
    assert lost(verdict)
    assert verdict.confidence is Confidence.CONFIRMED
    assert verdict.progress is Progress.STOPPED


def test_ras_that_misses_it_alone_makes_it_sure() -> None:
    ranks = tuple(range(WORLD))
    comm = Comm(ranks, even(ranks, 600), missing=(2,))
    polls = [ras_json(LOOK - 4, [comm]), ras_json(LOOK - 1, [comm])]
    verdict = verdict_of([instance({2: "X"}), *polls])
    assert lost(verdict)
    assert verdict.confidence is Confidence.CONFIRMED


def test_an_idle_instance_that_lost_one_is_not_healthy() -> None:
    pages = flat_pages(T0, 20, 500.0, running=0)
    assert lost(verdict_of([instance({2: "X"}), node({2: ("gone", "gone")}), *pages]))


@pytest.mark.parametrize("gone", [(0, 1, 2, 3), (1, 2), (0, 2, 3)])
def test_several_gone_at_once_convict_nobody(gone: tuple[int, ...]) -> None:
    verdict = verdict_of([instance(dict.fromkeys(gone, "X")), node(dict.fromkeys(gone, ("S", "gone"))), *STALLED])
    assert culprits(verdict) == []


@pytest.mark.parametrize("idle", [False, True])
@pytest.mark.parametrize("gone", [(0, 1, 2, 3), (1, 2)])
def test_what_moved_before_ranks_ended_is_no_health(gone: tuple[int, ...], idle: bool) -> None:
    pages = flat_pages(T0, 20, 500.0, running=0) if idle else steady_pages(T0, 20)
    ended = [instance(dict.fromkeys(gone, "X")), node(dict.fromkeys(gone, ("S", "gone")))]
    verdict = verdict_of([*ended, *pages])
    assert (verdict.class_, culprits(verdict)) == (FaultClass.INCONCLUSIVE, [])
    assert verdict.progress is (Progress.STOPPED if len(gone) == WORLD else Progress.UNKNOWN)
    assert "ended while evidence was taken" in (verdict.summary or "")


def test_ranks_that_end_after_the_second_look_are_lost_too() -> None:
    verdict = verdict_of([instance(dict.fromkeys(range(WORLD), "X")), node({}), *steady_pages(T0, 20)])
    assert (verdict.class_, verdict.progress) == (FaultClass.INCONCLUSIVE, Progress.STOPPED)


def test_a_server_that_goes_on_without_them_is_healthy() -> None:
    ended = [instance(dict.fromkeys((1, 2), "X")), node(dict.fromkeys((1, 2), ("S", "gone")))]
    verdict = verdict_of([*ended, *steady_pages(T0, 26)])
    assert (verdict.class_, verdict.progress) == (FaultClass.HEALTHY, Progress.ADVANCING)


def test_one_that_went_before_the_others_did_is_told_by_the_looks() -> None:
    states = {2: ("gone", "gone"), 0: ("S", "gone"), 1: ("S", "gone")}
    assert lost(verdict_of([instance(dict.fromkeys((0, 1, 2), "X")), node(states), *STALLED]))


def test_of_two_that_went_before_the_others_nobody_is_the_first() -> None:
    states = {2: ("gone", "gone"), 0: ("gone", "gone"), 1: ("S", "gone")}
    verdict = verdict_of([instance(dict.fromkeys((0, 1, 2), "X")), node(states), *STALLED])
    assert culprits(verdict) == []


def test_who_is_gone_after_a_time_out_is_a_victim() -> None:
    polls = [ras_json(T0 + 1, [Comm((0, 1, 2, 3), even((0, 1, 2, 3), 600))])]
    verdict = verdict_of([instance({2: "X"}), node({2: ("gone", "gone")}), alarm(), *polls, *STALLED])
    assert culprits(verdict) == []


@pytest.mark.parametrize("at", ["1129 21:06:55.000000001", "1129 21:06:55"])  # one that can be placed, one that cannot
def test_ras_convicts_no_victim_either(at: str) -> None:
    ranks = tuple(range(WORLD))
    comm = Comm(ranks, even(ranks, 600), missing=(2,))
    polls = [ras_json(LOOK - 4, [comm]), ras_json(LOOK - 1, [comm])]
    verdict = verdict_of([instance({2: "X"}), alarm(at), *polls])
    assert culprits(verdict) == []


def test_nobody_waits_and_nobody_serves_so_it_may_be_a_shutdown() -> None:
    verdict = verdict_of([instance({2: "X"}), node({2: ("S", "gone")})])
    assert culprits(verdict) == []
    assert "Rank 2 had ended at the last look" in said(verdict)


def test_a_peer_that_nobody_has_seen_alive_may_be_gone_too() -> None:
    document = json.loads(instance({2: "X"}).data)
    del document["processes"][3]["state"]
    verdict = verdict_of([Blob("instance.json", json.dumps(document).encode()), *STALLED])
    assert culprits(verdict) == []


@pytest.mark.parametrize(("code", "subkind"), [(-9, Subkind.KILLED), (1, Subkind.EXITED), (0, Subkind.EXITED)])
def test_the_code_of_a_zombie_says_how(code: int, subkind: Subkind) -> None:
    verdict = verdict_of([instance({2: "Z"}, {2: code}), node({2: ("Z", "Z")}, {2: code}), *STALLED])
    assert lost(verdict, subkind)


def test_a_zombie_that_was_terminated_was_taken_down() -> None:
    verdict = verdict_of([instance({2: "Z"}, {2: -15}), node({2: ("Z", "Z")}, {2: -15}), *STALLED])
    assert culprits(verdict) == []


def test_the_kernel_may_know_how_it_ended() -> None:
    crash = f"2026-11-29T21:06:50+00:00 n kernel: python[{pid(2)}]: segfault at 0 ip 0 sp 0 error 6 in libx.so[1+1]\n"
    verdict = verdict_of([instance({2: "X"}), Blob("kernel/dmesg.txt", crash.encode()), *STALLED])
    assert lost(verdict, Subkind.KILLED)
    assert "SIGSEGV" in said(verdict)


def test_all_alive_and_moving_is_healthy() -> None:
    verdict = verdict_of([instance({}), node({}), *steady_pages(T0, 20)])
    assert verdict.class_ is FaultClass.HEALTHY


def nodes(apart: float) -> list[Blob]:
    """Ranks 0 and 1 are looked at `apart` seconds before the node of ranks 2 and 3, where 2 is gone."""
    files = []
    for name, ranks, at in (("a", (0, 1), LOOK - apart), ("b", (2, 3), LOOK)):
        document = json.loads(node({2: ("gone", "gone")}).data)
        tasks = [task for task in document["tasks"] if task["rank"] in ranks]
        document |= {"looks": [at - 3, at], "tasks": tasks}
        files.append(Blob(f"node-{name}/platform/node.json", json.dumps(document).encode()))
    return files


@pytest.mark.parametrize(("apart", "named"), [(-60, [2]), (2, [2]), (60, [])])
def test_a_node_that_was_looked_at_before_says_nothing_of_its_ranks_later(apart: float, named: list[int]) -> None:
    verdict = verdict_of([instance({}), *nodes(apart), *STALLED])
    assert culprits(verdict) == named


def test_a_dead_process_that_was_replaced_is_not_its_rank() -> None:
    document = json.loads(node({}).data)
    dead = {"pid": 4, "rank": 2, "role": "worker", "looks": [{"state": "Z", "exit_code": -9}] * 2}
    for tasks in ([*document["tasks"], dead], [dead, *document["tasks"]]):
        blob = Blob("platform/node.json", json.dumps({**document, "tasks": tasks}).encode())
        assert culprits(verdict_of([instance({}), blob, *STALLED])) == []


def test_a_ranks_helper_is_not_its_rank() -> None:
    document = json.loads(node({}).data)
    document["tasks"].append({"pid": 4, "rank": 2, "role": "helper", "looks": [{"state": "T"}] * 2})
    assert culprits(verdict_of([instance({}), Blob("platform/node.json", json.dumps(document).encode())])) == []
