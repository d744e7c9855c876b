"""Exceptions: the rank whose own exception came first, never the one that reports another's."""

from __future__ import annotations

import time as clock

import pytest
from build_evidence import (
    T0,
    culprits,
    flat_pages,
    instance,
    log,
    ras_json,
    steady_pages,
    traceback,
    verdict_of,
    watchdog,
)

from rankmuster.evidence.blob import Blob
from rankmuster.model.verdict import Verdict

STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]


def raised(world: int, *logs: Blob) -> Verdict:
    return verdict_of([instance(world), *STALLED, *logs])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    "error", ["ValueError: bad token", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."]
)
def test_one_rank_raises(world: int, error: str) -> None:
    verdict = raised(world, log("rank1.log", *traceback(1, error)))
    assert (verdict.class_.value, culprits(verdict)) == ("process_or_device_lost", [1])


@pytest.mark.parametrize("world", [2, 4])
def test_the_others_errors_later_are_consequences(world: int) -> None:
    error = "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, unhandled system error"
    others = [log(f"rank{r}.log", *traceback(r, error, T0 + 15)) for r in range(world) if r != 1]
    assert culprits(raised(world, log("rank1.log", *traceback(1, "ValueError: bad", T0 + 10)), *others)) == [1]


def test_a_rank_that_raised_while_all_others_timed_out() -> None:
    others = [log(f"rank{r}.log", watchdog(r, T0 + 21)) for r in (0, 2, 3)]
    assert culprits(raised(4, log("rank1.log", *traceback(1, "ValueError: bad")), *others)) == [1]


@pytest.mark.parametrize("at", [None, T0 + 10])
def test_the_same_exception_on_all_ranks_convicts_nobody(at: float | None) -> None:
    """A bad request reaches every rank; whose traceback is stamped first means nothing."""
    logs = [
        log(f"rank{r}.log", *traceback(r, "ValueError: bad", at + 0.01 * r if at else None), watchdog(r, T0 + 40))
        for r in range(4)
    ]
    assert culprits(raised(4, *logs)) == []


@pytest.mark.parametrize(
    "error",
    [
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the "
        "root cause.",
        "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed.",
        "RuntimeError: NCCL communicator was aborted on rank 0.",
    ],
)
def test_an_exception_that_tells_of_another_failure_is_no_culprits(error: str) -> None:
    assert culprits(raised(4, log("rank0.log", *traceback(0, error)))) == []


def test_exceptions_after_the_first_timeout_convict_nobody() -> None:
    logs = [log(f"rank{r}.log", watchdog(r, T0 + 21)) for r in (1, 2, 3)]
    logs.append(log("rank0.log", watchdog(0, T0 + 21), *traceback(0, "RuntimeError: broken", T0 + 25)))
    assert culprits(raised(4, *logs)) == []


def worker(rank: int, error: str, at: float) -> Blob:
    """A traceback as vLLM logs it, with a time on each line."""
    moment = clock.strftime("%m-%d %H:%M:%S", clock.gmtime(at))
    lines = ["Traceback (most recent call last):", '  File "/opt/worker.py", line 128, in step', "    run()", error]
    return log(f"rank{rank}.log", *[f"(VllmWorker rank={rank} pid=5001) ERROR {moment} [w.py:5] {x}" for x in lines])


def test_an_exception_after_the_engines_own_alarm_accuses_nobody() -> None:
    moment = clock.strftime("%Y-%m-%d %H:%M:%S", clock.gmtime(T0 + 20))
    alarm = log("rank0.log", f"[{moment}] Watchdog timeout (self.watchdog_timeout=300, self.soft=False)")
    anchor = ras_json(T0 + 19, [])
    assert culprits(raised(4, anchor, alarm, worker(1, "ValueError: bad token", T0 + 15))) == [1]
    assert culprits(raised(4, anchor, alarm, worker(1, "ValueError: bad token", T0 + 25))) == []
