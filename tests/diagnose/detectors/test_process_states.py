"""Processes from outside: who is stopped is named, who is merely seen at a bad moment is not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from build_evidence import HOST, IDLE, MOVE, SPIN, T0, culprits, instance, pid, said, samples, steady_pages, verdict_of

from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, FaultClass, Progress, Role, Subkind


def node(states: Mapping[int, Sequence[Any]], gap: float = 3.0, at: float = T0 + 10, **more: Any) -> Blob:
    """`platform/node.json`: rank -> state per look, or the whole look."""
    count = max(map(len, states.values()), default=2)
    tasks = [
        {
            "pid": pid(rank),
            "rank": rank,
            "role": "worker",
            "looks": [look if isinstance(look, dict) else {"state": look} for look in looks],
        }
        for rank, looks in states.items()
    ]
    document = {
        "schema": "rankmuster.node/1",
        "host": HOST,
        "looks": [at + gap * i for i in range(count)],
        "tasks": tasks,
    }
    return Blob("platform/node.json", json.dumps({**document, **more}).encode())


def all_but(
    rank: int, looks: Sequence[Any], others: Sequence[Any] = ("S", "S"), world: int = 4
) -> dict[int, Sequence[Any]]:
    return {each: looks if each == rank else others for each in range(world)}


def test_a_stopped_process_among_others_is_named():
    verdict = verdict_of([instance(), node(all_but(2, ("T", "T")))])
    assert verdict.class_ is FaultClass.PROCESS_OR_DEVICE_LOST
    assert verdict.subclass is Subkind.UNRESPONSIVE
    assert culprits(verdict) == [2]
    assert verdict.confidence is Confidence.LIKELY
    assert "SIGCONT" in said(verdict)


def test_the_hardware_plane_makes_it_sure():
    spin = {rank: IDLE if rank == 2 else SPIN for rank in range(4)}
    gpus = samples([(6, dict.fromkeys(range(4), MOVE)), (14, spin)])
    verdict = verdict_of([instance(), gpus, node(all_but(2, ("T", "T")))])
    assert (verdict.subclass, verdict.confidence) == (Subkind.UNRESPONSIVE, Confidence.CONFIRMED)
    assert culprits(verdict) == [2]
    assert verdict.progress is Progress.STOPPED


def test_of_two_ranks_the_stopped_one_is_separated():
    assert culprits(verdict_of([instance(2), node(all_but(0, ("T", "T"), world=2))])) == [0]


@pytest.mark.parametrize("looks", [("T", "S"), ("S", "T"), ("t", "t"), ("T",)])
def test_one_bad_moment_or_a_debugger_convicts_nobody(looks):
    verdict = verdict_of([instance(), node(all_but(2, looks))])
    assert culprits(verdict) == []


def test_two_looks_at_one_moment_are_one():
    assert culprits(verdict_of([instance(), node(all_but(2, ("T", "T")), gap=0.2)])) == []


def test_an_instance_that_was_suspended_as_a_whole_has_no_culprit():
    verdict = verdict_of([instance(), node(dict.fromkeys(range(4), ("T", "T")))])
    assert culprits(verdict) == []
    assert "suspended" in said(verdict)


def test_the_many_are_not_the_culprits():
    verdict = verdict_of([instance(), node({0: ("S", "S"), **dict.fromkeys((1, 2, 3), ("T", "T"))})])
    assert culprits(verdict) == []


def test_an_instance_that_advances_is_healthy_whatever_one_process_does():
    pages = steady_pages(T0, 20)
    gpus = samples([(20, dict.fromkeys(range(4), MOVE))])
    verdict = verdict_of([instance(), *pages, gpus, node(all_but(2, ("T", "T")))])
    assert verdict.class_ is FaultClass.HEALTHY


def test_a_healthy_node_changes_no_verdict():
    pages = steady_pages(T0, 20)
    gpus = samples([(20, dict.fromkeys(range(4), MOVE))])
    verdict = verdict_of([instance(), *pages, gpus, node(all_but(2, ("D", "R"), ("S", "R")))])
    assert verdict.class_ is FaultClass.HEALTHY
    assert not [finding for finding in verdict.findings if finding.detector == "process-states"]


def test_a_killed_process_that_nobody_collected_is_named():
    dead = {"state": "Z", "exit_code": -9}
    verdict = verdict_of([instance(), node(all_but(3, (dead, dead)))])
    assert (verdict.subclass, culprits(verdict)) == (Subkind.KILLED, [3])


@pytest.mark.parametrize("look", [{"state": "Z", "exit_code": 1}, {"state": "Z", "exit_code": -6}, {"state": "gone"}])
def test_an_end_that_may_be_a_consequence_is_told_and_accuses_nobody(look):
    verdict = verdict_of([instance(), node(all_but(3, (look, look)))])
    assert culprits(verdict) == []
    assert "Rank 3 had ended" in said(verdict)


def test_what_the_supervisor_knows_of_an_end_is_not_said_twice():
    dead = {"state": "Z", "exit_code": -9}
    verdict = verdict_of([instance(exits={3: (-9, None)}), node(all_but(3, (dead, dead)))])
    accusing = [f for f in verdict.findings if f.detector == "process-states" and f.led_to_verdict]
    assert not accusing


def test_a_wait_in_the_kernel_without_a_break_is_told():
    stuck = {"state": "D", "wchan": "nfs_wait_bit_killable", "voluntary_switches": 77}
    verdict = verdict_of([instance(), node(all_but(1, (stuck, stuck)))])
    assert culprits(verdict) == []
    assert "nfs_wait_bit_killable" in said(verdict)
    moving = [{**stuck, "voluntary_switches": n} for n in (77, 90)]
    assert "nfs_wait" not in said(verdict_of([instance(), node(all_but(1, moving))]))


def test_what_ran_out_is_told():
    groups = [{"path": "/pod", "time": T0 + at, "oom_kill": kills} for at, kills in ((10, 1), (13, 2))]
    shm = [{"size_bytes": 64 << 20, "free_bytes": 0, "pids": [pid(0), pid(1)]}]
    text = said(verdict_of([instance(), node(all_but(0, ("S", "S")), cgroups=groups, shared_memory=shm)]))
    assert "has killed 2 processes of /pod for want of memory, 1 of them between the looks" in text
    assert "shared memory of 2 processes is full (0 of 64 MiB free)" in text


def test_the_plane_speaks_without_a_supervisor():
    verdict = verdict_of([node(all_but(2, ("T", "T")))])
    (plane,) = [record for record in verdict.planes if record.plane.value == "platform"]
    assert (plane.state.value, plane.note) == ("spoke", "4 processes seen from outside")
    assert culprits(verdict) == [2]


def test_a_stopped_engine_is_told_and_accuses_no_rank():
    blob = node(dict.fromkeys(range(2), ("S", "S")))
    document = json.loads(blob.data)
    document["tasks"].append({"pid": 77, "role": "engine", "name": "VLLM::EngineCore", "looks": [{"state": "T"}] * 2})
    verdict = verdict_of([instance(2), Blob(blob.path, json.dumps(document).encode())])
    assert culprits(verdict) == []
    assert "Process 77 (VLLM::EngineCore) of the instance is stopped" in said(verdict)


@pytest.mark.parametrize("look", ["T", {"state": "Z", "exit_code": -9}])
def test_peers_whose_state_nobody_could_read_separate_nobody(look):
    verdict = verdict_of([instance(), node(all_but(2, (look, look), ("?", "?")))])
    assert culprits(verdict) == []
    assert "0, 1, 3 are not" not in said(verdict)
    assert "still there" not in said(verdict)


def test_who_was_killed_is_no_culprit_while_a_peer_is_unaccounted_for():
    dead = {"state": "Z", "exit_code": -9}
    seen = {rank: looks for rank, looks in all_but(3, (dead, dead)).items() if rank != 0}
    verdict = verdict_of([instance(), node(seen)])  # rank 0 may have gone first, and its launcher killed the others
    assert culprits(verdict) == []
    assert [suspect.rank for suspect in verdict.suspects if suspect.role is Role.SUSPECT] == [3]
    assert "nobody saw rank 0 alive" in said(verdict)
