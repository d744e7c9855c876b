"""Whether GPUs are free again: what one look says against the one before the start."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.collect.deadline import Deadline
from rankmuster.supervise.gpus import GpuUse, freed, judge

OURS = frozenset({10, 11})


def gpu(used: int | None, *pids: int) -> GpuUse:
    return GpuUse(used, frozenset(pids))


def test_memory_that_is_back_is_free() -> None:
    said = judge({0: gpu(4), 1: gpu(900, 7)}, {0: gpu(10), 1: gpu(905, 7)}, OURS, host_pids=True)
    assert said.free is True
    assert "2 GPU(s)" in said.note


def test_a_process_of_the_group_on_a_gpu_is_not_free() -> None:
    said = judge({0: gpu(4)}, {0: gpu(4, 11)}, OURS, host_pids=True)
    assert said.free is False
    assert said.pids == (11,)


def test_memory_without_an_owner_is_not_free() -> None:
    said = judge({0: gpu(4)}, {0: gpu(40_000)}, OURS, host_pids=True)
    assert said.free is False
    assert "39996 MiB" in said.note


def test_others_who_came_make_memory_say_nothing() -> None:
    said = judge({0: gpu(4)}, {0: gpu(40_000, 99)}, OURS, host_pids=True)
    assert said.free is None
    assert not said.later


def test_in_a_container_a_newcomer_may_be_the_groups() -> None:
    said = judge({0: gpu(4)}, {0: gpu(40_000, 99)}, OURS, host_pids=False)
    assert said.free is None
    assert said.later
    assert judge({0: gpu(4)}, {0: gpu(4, 10)}, OURS, host_pids=False).free is True  # the machine's 10 is another's


def test_without_a_look_before_only_processes_are_told() -> None:
    assert judge(None, {0: gpu(40_000)}, OURS, host_pids=True).free is True
    assert "not known" in judge({}, {0: gpu(40_000)}, OURS, host_pids=True).note
    assert judge(None, {0: gpu(40_000)}, OURS, host_pids=False).free is None
    assert judge({0: gpu(None)}, {0: gpu(None)}, OURS, host_pids=False).free is None


def test_a_gpu_that_is_silent_is_not_free() -> None:
    said = judge({0: gpu(4), 1: gpu(4)}, {0: gpu(4)}, OURS, host_pids=True)
    assert said.free is None
    assert "GPU 1" in said.note


def test_it_is_waited_for_until_the_deadline() -> None:
    now = [0.0]
    rows: list[Mapping[int, GpuUse] | None] = [{0: gpu(40_000, 10)}, {0: gpu(30_000)}, {}, {0: gpu(4)}]

    def pause(seconds: float) -> None:
        now[0] += max(seconds, 0.01)

    said = freed({0: gpu(4)}, lambda _: rows.pop(0), OURS, Deadline(10.0, lambda: now[0]), pause, host_pids=True)
    assert said.free is True
    late = freed(
        {0: gpu(4)}, lambda _: {0: gpu(900)}, OURS, Deadline(now[0] + 2, lambda: now[0]), pause, host_pids=True
    )
    assert late.free is False
    absent = freed({0: gpu(4)}, lambda _: None, OURS, Deadline(now[0] + 2, lambda: now[0]), pause, host_pids=True)
    assert absent.free is None
    assert "no NVML" in absent.note
