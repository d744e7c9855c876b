"""NVML's pids in the numbers of the instance: its own ranks must not look like strangers, nor strangers like ranks."""

from __future__ import annotations

from node_bench import target, worker

from rankmuster.collect.node.pids import BEYOND_PIDS, pid_map


def test_host_pids_become_the_processes_own():
    pids = pid_map(target(worker(0, pid=900, inner=31, host=70031), worker(1, pid=901, inner=32, host=70032)), [])
    assert pids.of([70032, 70031]) == [31, 32]


def test_a_stranger_with_a_ranks_number_stays_a_stranger():
    pids = pid_map(target(worker(0, pid=900, inner=31, host=70031)), [])
    assert pids.of([70031, 31]) == [31, 31 + BEYOND_PIDS]
    assert pids.of([555]) == [555]


def test_one_namespace_needs_no_translation():
    pids = pid_map(target(worker(0, pid=31), worker(1, pid=32)), [[31], [32], [999]])
    assert pids.of([31, 999]) == [31, 999]


def test_another_namespace_without_host_pids_is_not_guessed_at():
    pids = pid_map(target(*(worker(rank, pid=31 + rank) for rank in range(4))), [[70031], [31], [70033]])
    assert not pids.translates
    assert pids.of([31]) is None


def test_a_worker_without_a_host_pid_may_be_any_unknown_process():
    pids = pid_map(target(worker(0, inner=31, host=70031), worker(1, inner=32)), [])
    assert pids.of([70031]) == [31]
    assert pids.of([70032]) is None


def test_without_an_instance_all_numbers_are_as_they_are():
    assert pid_map(None, [[7]]).of([9, 7]) == [7, 9]
