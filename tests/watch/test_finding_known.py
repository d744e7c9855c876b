"""One instance over time: nobody comes back to life, names and incarnations stay, and what was split becomes one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from finding_node import Node

from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.watch.finding_known import alive, looked, merged, over, shape


def process(pid: int, rank: int | None = None, role: Role = Role.WORKER, state: str = "S", **more) -> ProcessOfInstance:
    name = more.pop("name", role.value)
    return ProcessOfInstance(pid, pid, None, pid * 10, 1.7e9 + pid, role, name, rank=rank, state=state, **more)


def target(*processes: ProcessOfInstance, name: str = "llm", incarnation: str | None = "a", **more) -> Target:
    return Target(name, "h", processes, incarnation=incarnation, **more)


SERVER = process(1, role=Role.SERVER)


def by_pid(found: Target) -> dict[int, ProcessOfInstance]:
    return {one.pid: one for one in found.processes}


def test_a_search_that_began_before_a_death_brings_nobody_back_to_life():
    known = target(SERVER, process(2, 0), process(3, 1, state="X", exit_status=-9))
    found = merged(known, target(SERVER, process(2, 0), process(3, 1)))
    assert (by_pid(found)[3].state, by_pid(found)[3].exit_status) == ("X", -9)
    assert shape(found) == shape(known)


def test_a_dead_rank_that_has_lost_its_title_keeps_its_rank():
    known = target(SERVER, process(2, 0), process(3, 1))
    found = merged(known, target(SERVER, process(2, 0), process(3, None, Role.HELPER, state="Z", exit_status=-6)))
    dead = by_pid(found)[3]
    assert (dead.rank, dead.role, dead.state, dead.exit_status) == (1, Role.WORKER, "Z", -6)


def test_a_rank_that_lives_and_was_not_found_this_time_stays():
    known = target(SERVER, process(2, 0), process(3, 1))
    found = merged(known, target(SERVER, process(2, 0)))
    assert alive(by_pid(found)[3])
    assert shape(found) == shape(known)


def test_a_dead_rank_goes_when_another_has_its_number():
    known = target(SERVER, process(2, 0), process(3, 1, state="X"))
    found = merged(known, target(SERVER, process(2, 0), process(4, 1)))
    assert by_pid(found).keys() == {1, 2, 4}
    assert found.incarnation == "a"


def test_a_server_that_is_replaced_again_and_again_leaves_no_heap_of_dead():
    known = target(SERVER, process(2, 0))
    for pid in range(10, 40):
        dead = tuple(replace(one, state="X") if one.role is Role.SERVER else one for one in known.processes)
        known = merged(replace(known, processes=dead), target(process(pid, role=Role.SERVER), process(2, 0)))
    assert len(known.processes) == 2


def test_a_clock_that_is_set_makes_no_other_incarnation():
    known = target(SERVER, process(2, 0), incarnation="2026-01-01T00:00:00Z")
    found = merged(known, target(SERVER, process(2, 0), incarnation="2026-01-01T00:00:05Z"))
    assert found.incarnation == known.incarnation


def test_a_launcher_without_ranks_yet_takes_what_its_ranks_say():
    known = target(process(1, role=Role.LAUNCHER), incarnation="early")
    found = merged(known, target(process(1, role=Role.LAUNCHER), process(2, 0), incarnation="early+pod"))
    assert found.incarnation == "early+pod"


@pytest.mark.parametrize(
    ("known", "found", "wanted"),
    [("vllm-8000", "vllm-8000-pid7", "vllm-8000"), ("vllm-pid7", "vllm-8000", "vllm-8000"), ("a", "b", "a")],
)
def test_a_name_stays_but_for_a_better_one(known, found, wanted):
    both = (SERVER, process(2, 0))
    assert merged(target(*both, name=known), target(*both, name=found)).name == wanted


def test_what_could_not_be_seen_this_time_is_not_unlearned():
    known = target(SERVER, process(2, 0, gpus=(3,)), nccl_loaded=True, world_size=4, metrics_urls=("u",))
    found = merged(known, target(SERVER, process(2, 0)))
    assert shape(found) == shape(known)


def test_helpers_that_end_are_left_out_and_change_nothing():
    helper = process(9, role=Role.HELPER)
    known = target(SERVER, process(2, 0), helper)
    now = looked(known, lambda one: ("X", None) if one.pid == 9 else ("S", None))
    assert by_pid(now).keys() == {1, 2}
    assert shape(now) == shape(known)
    assert looked(now, lambda one: None) is now


def test_an_instance_is_over_when_only_helpers_are_left():
    assert over(target(process(2, 0, state="Z"), process(9, role=Role.HELPER)))
    assert not over(target(process(9, role=Role.HELPER)))
    assert not over(target(process(2, 0, state="X"), SERVER))


def test_what_was_taken_for_several_becomes_one(tmp_path: Path):
    node = Node(tmp_path)
    for rank in range(2):
        node.fake.add(103 + rank, 1, [f"VLLM::Worker_TP{rank}"], titled=True, comm=f"VLLM::Worker_T{rank}")
    finder = node.finder()
    assert len(node.look(finder).current) == 2
    node.kill(103, 104)
    node.serve(100)
    node.look(finder, 300)
    (current,) = node.look(finder, 5).current
    assert current.name == "vllm-8000"
    assert [one.rank for one in current.workers] == [0, 1]
