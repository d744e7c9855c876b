"""Whose GPU a sample is, and its processes in the instance's own numbers."""

from __future__ import annotations

from rankmuster.collect.target import ProcessOfInstance, Role, Target
from rankmuster.watch.signals.gpu_instance import for_instance, share_of
from rankmuster.watch.signals.gpu_rows import one_sample


def worker(rank, *, pid=None, inner=None, host=None, gpus=(), uuids=()):
    seen = pid if pid is not None else 5000 + rank
    return ProcessOfInstance(
        seen, inner if inner is not None else seen, host, 0, 0.0, Role.WORKER, f"Worker_TP{rank}", rank=rank,
        gpus=gpus, gpu_uuids=uuids,
    )  # fmt: skip


def target(*processes):
    return Target("llm-0", "10.0.0.7", tuple(processes))


def sample(gpu, pids=None):
    return one_sample(
        host="node-a", gpu=gpu, uuid=f"GPU-{gpu}abc", bus=None, time=1.0, pids=pids, columns={"sm_percent": 100.0}
    )


def test_its_gpus_by_uuid_even_when_shortened_and_the_host_by_its_name():
    here = target(worker(0, host=70, uuids=("GPU-2a",)), worker(1, host=71, uuids=("GPU-3abc",)))
    share = share_of(here, [(70,), (71,), (9,)], sole=False)
    found = [for_instance(sample(gpu), share) for gpu in range(4)]
    assert [track.gpu for track in found if track is not None] == [2, 3]
    assert {track.host for track in found if track is not None} == {"10.0.0.7"}


def test_its_gpus_by_index_then_by_process():
    by_index = target(worker(0, host=70, gpus=(1,)))
    assert for_instance(sample(1), share_of(by_index, [(70,)], sole=True)) is not None
    assert for_instance(sample(0), share_of(by_index, [(70,)], sole=True)) is None
    by_process = target(worker(0, host=70))
    share = share_of(by_process, [(70,), (80,)], sole=False)
    assert for_instance(sample(0, (70,)), share) is not None
    assert for_instance(sample(1, (80,)), share) is None


def test_without_any_sign_a_sole_instance_has_all_and_another_none():
    here = target(worker(0))
    assert for_instance(sample(0), share_of(here, [], sole=True)) is not None
    assert for_instance(sample(0), share_of(here, [], sole=False)) is None


def test_processes_carry_the_instances_own_numbers_and_foreign_ones_stay_apart():
    here = target(worker(0, inner=12, host=7000, gpus=(0,)))
    share = share_of(here, [(7000, 12, 99)], sole=True)
    track = for_instance(sample(0, (7000, 12, 99)), share)
    assert track is not None
    [pids] = track.pids
    assert pids is not None
    assert 12 in pids
    assert 99 in pids
    assert len(pids) == 3, "the host's process 12 is not the worker that calls itself 12"


def test_processes_that_nobody_can_tell_are_none_not_absent():
    hidden = target(worker(0, gpus=(0,)), worker(1, gpus=(1,)))
    track = for_instance(sample(0, ()), share_of(hidden, [(), ()], sole=True))
    assert track is not None
    assert track.pids == (None,)
    foreign = for_instance(sample(0, (31, 32)), share_of(hidden, [(31, 32)], sole=True))
    assert foreign is not None
    assert foreign.pids == (None,)
