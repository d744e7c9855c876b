"""Which process ended first, and which ends are the consequence of another."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from build_evidence import (
    IDLE,
    MOVE,
    SPIN,
    T0,
    Comm,
    culprits,
    even,
    flat_pages,
    instance,
    kernel,
    log,
    pid,
    ras_json,
    said,
    samples,
    steady_pages,
    traceback,
    verdict_of,
    vllm_page,
    watchdog,
)

from rankmuster.evidence.blob import Blob
from rankmuster.model.verdict import Verdict

LOST = "process_or_device_lost"
NCCL_ERROR = (
    "torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, remote process exited or there was a "
    "network error, NCCL version 2.28.9"
)
STALLED = [*steady_pages(T0, 10), *flat_pages(T0 + 11, 40, 1500)]
"""Work stops at 10 s."""


def ends(
    world: int, exits: Mapping[int, tuple[int, float | None]], *more: Blob, hosts: list[str] | None = None
) -> Verdict:
    return verdict_of([instance(world, exits, hosts), *STALLED, *more])


def missing(world: int, rank: int, *times: float) -> list[Blob]:
    members = tuple(range(world))
    return [ras_json(T0 + at, [Comm(members, even(members, 1000), missing=(rank,))]) for at in times]


def timeouts(world: int, without: int) -> list[Blob]:
    return [log(f"rank{rank}.log", watchdog(rank, T0 + 20)) for rank in range(world) if rank != without]


def kind(verdict: Verdict) -> tuple[str, str | None, list[int]]:
    return verdict.class_.value, verdict.subclass.value if verdict.subclass else None, culprits(verdict)


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(("code", "how"), [(0, "exited"), (1, "exited"), (-9, "killed"), (-11, "killed")])
@pytest.mark.parametrize("timed", [True, False])
def test_the_rank_that_ended_before_the_first_timeout(world: int, code: int, how: str, timed: bool) -> None:
    at = T0 + 10.5 if timed else None
    verdict = ends(world, {1: (code, at)}, *missing(world, 1, 15, 25, 35), *timeouts(world, 1))
    assert kind(verdict) == (LOST, how, [1])


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("late", [T0 + 22, None])
def test_victims_that_abort_afterwards_are_after_shocks(world: int, late: float | None) -> None:
    exits: dict[int, tuple[int, float | None]] = dict.fromkeys(range(world), (-6, late))
    verdict = ends(world, {**exits, 1: (-9, T0 + 10.5)}, *missing(world, 1, 15, 25), *timeouts(world, 1))
    assert kind(verdict) == (LOST, "killed", [1])
    assert verdict.confidence is not None
    assert verdict.confidence.value == "confirmed"


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("code", [-15, -9])
def test_a_launcher_that_takes_the_others_down_at_once(world: int, code: int) -> None:
    """One process fails by its own exception; the launcher signals the rest 0.3 s later."""
    exits = dict.fromkeys(range(world), (code, T0 + 10.8))
    raised = log("rank1.log", *traceback(1, "ValueError: bad token"))
    assert kind(ends(world, {**exits, 1: (1, T0 + 10.5)}, raised)) == (LOST, "exited", [1])


def test_a_kill_and_a_plain_exit_within_the_same_second_without_a_log_convict_nobody() -> None:
    assert culprits(ends(2, {0: (-9, T0 + 10.8), 1: (1, T0 + 10.5)})) == []


def test_everybody_killed_at_once_convicts_nobody() -> None:
    assert culprits(ends(2, {0: (-9, T0 + 10.5), 1: (-9, T0 + 10.6)})) == []


def test_a_kill_at_an_unknown_time_rivals_a_later_exit() -> None:
    """Rank 0 fails at 20 s because of its peer, whose end nobody timed."""
    exits: dict[int, tuple[int, float | None]] = {1: (-9, None), 0: (1, T0 + 20)}
    victim = log("rank0.log", *traceback(0, NCCL_ERROR, T0 + 20))
    assert culprits(ends(2, exits, victim)) == []
    assert kind(ends(2, exits, victim, *missing(2, 1, 15))) == (LOST, "killed", [1])


def test_kills_at_an_unknown_time_of_ranks_that_lived_on_are_after_shocks() -> None:
    exits: dict[int, tuple[int, float | None]] = dict.fromkeys(range(4), (-9, None))
    exits[1] = (1, T0 + 10.5)
    assert kind(ends(4, exits, *missing(4, 1, 15, 25, 35))) == (LOST, "exited", [1])


def test_an_orderly_shutdown_is_healthy_and_says_so() -> None:
    pages = [*steady_pages(T0, 10), *[vllm_page(T0 + 11 + i, 1500, 0) for i in range(5)]]
    verdict = verdict_of([instance(4, {rank: (0, T0 + 17 + rank) for rank in range(4)}), *pages])
    assert (verdict.class_.value, verdict.progress.value) == ("healthy", "draining")
    assert "exit code 0" in (verdict.summary or "")
    ended = verdict_of([instance(4, dict.fromkeys(range(4), (0, T0 + 20.5))), *steady_pages(T0, 20)])
    assert ended.progress.value == "draining", "the last page still moved"


def test_exit_code_0_of_all_does_not_hide_a_stop() -> None:
    exits = dict.fromkeys(range(4), (0, T0 + 52.0))
    assert kind(ends(4, {**exits, 3: (0, T0 + 10.5)}, *missing(4, 3, 15, 25))) == (LOST, "exited", [3])
    assert ends(4, exits, *timeouts(4, -1)).class_.value != "healthy"


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    ("line", "how"),
    [
        ("(EngineCore_DP0 pid=900) ERROR 11-29 20:33:30 [multiproc_executor.py:230] Worker proc VllmWorker-1 died "
         "unexpectedly (exit code: -9), shutting down executor.", "killed"),
        ("(EngineCore_DP0 pid=900) ERROR 11-29 20:33:30 [multiproc_executor.py:230] Worker proc VllmWorker-1 died "
         "unexpectedly, shutting down executor.", "exited"),
        (f"[2026-11-29 20:33:30] Subprocess scheduler_1 (pid={pid(1)}) crashed with exit code -9. Triggering SIGQUIT "
         "for cleanup...", "killed"),
        ("srun: error: n7: task 1: Killed", "killed"),
    ],
)  # fmt: skip
def test_ends_that_only_a_log_reports(world: int, line: str, how: str) -> None:
    assert kind(ends(world, {}, log("launcher.log", line))) == (LOST, how, [1])


def test_a_worker_that_ends_after_the_engines_own_alarm_is_an_after_shock() -> None:
    lines = (
        "(EngineCore_DP0 pid=900) ERROR 11-29 20:38:30 [core.py:1] TimeoutError: RPC call to execute_model timed out.",
        "(EngineCore_DP0 pid=900) ERROR 11-29 20:38:40 [multiproc_executor.py:230] Worker proc VllmWorker-0 died "
        "unexpectedly, shutting down executor.",
    )
    assert culprits(ends(4, {}, log("engine.log", *lines))) == []


OOM = "Out of memory: Killed process {} (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0"


def test_an_out_of_memory_kill_by_its_number_in_the_kernel_log() -> None:
    verdict = ends(2, {0: (1, T0 + 20)}, kernel(f"[ 1234.5] {OOM.format(pid(1))}"))
    assert kind(verdict) == (LOST, "killed", [1])


def test_an_out_of_memory_kill_by_the_hosts_number_that_the_driver_saw_on_the_gpu() -> None:
    gpus = samples([(10, {0: MOVE, 1: MOVE}), (40, {0: SPIN})], pids={0: [90000], 1: [90001]})
    assert kind(ends(2, {}, gpus, kernel(f"[ 1234.5] {OOM.format(90001)}"))) == (LOST, "killed", [1])


def test_an_out_of_memory_kill_of_an_unknown_number_is_told_beside_the_kill() -> None:
    verdict = ends(2, {1: (-9, T0 + 10.5)}, kernel(f"[ 1234.5] {OOM.format(90001)}"))
    assert kind(verdict) == (LOST, "killed", [1])
    assert "90001" in said(verdict)


def test_an_old_out_of_memory_kill_of_a_number_that_answers_is_no_fault() -> None:
    polls = [ras_json(T0 + at, [Comm((0, 1), even((0, 1), 1000 + 20 * at))]) for at in (10, 15)]
    verdict = verdict_of([instance(2), *steady_pages(T0, 20), *polls, kernel(f"[ 1.5] {OOM.format(pid(1))}")])
    assert verdict.class_.value == "healthy"


def test_all_ranks_of_one_node_die_at_once() -> None:
    hosts = ["10.0.0.1", "10.0.0.1", "10.0.0.2", "10.0.0.2"]
    verdict = ends(4, {2: (-9, T0 + 10.5), 3: (-9, T0 + 10.7)}, hosts=hosts)
    assert kind(verdict) == (LOST, "killed", [2, 3])
    assert verdict.suspect_hosts == ("10.0.0.2",)


def test_the_reason_tells_how_the_end_is_known() -> None:
    assert "no time-out" not in said(ends(2, {}, log("slurm.log", "srun: error: n7: task 1: Killed")))
    assert "RAS" not in (ends(2, {}, log("slurm.log", "srun: error: n7: task 1: Killed")).summary or "")


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize("code", [-6, -15])
def test_one_process_aborted_while_work_still_moved(world: int, code: int) -> None:
    """No watchdog is that fast: 0.5 s after the last token."""
    assert kind(ends(world, {1: (code, T0 + 10.5)})) == (LOST, "killed", [1])
    assert culprits(ends(world, {1: (code, T0 + 40)})) == [], "long after the stop it is a consequence"
    both = {0: (code, T0 + 10.5), 1: (code, T0 + 10.6)}
    assert culprits(ends(world, both)) == [], "a shutdown takes all of them"


@pytest.mark.parametrize("code", [-9, 1, 0])
def test_everybody_taken_down_long_after_the_stop_hides_nothing(code: int) -> None:
    """An operator's kill at 45 s is no reason for the stop at 10 s, which the GPUs explain."""
    gpus = samples([(10, dict.fromkeys(range(4), MOVE)), (34, {**dict.fromkeys(range(4), SPIN), 2: IDLE})])
    verdict = ends(4, dict.fromkeys(range(4), (code, T0 + 45)), gpus)
    assert (verdict.class_.value, culprits(verdict)) == ("collective_desync", [2])
    assert culprits(ends(4, {1: (code, T0 + 45)}, gpus)) == [2]


@pytest.mark.parametrize("world", [2, 4])
@pytest.mark.parametrize(
    "error",
    [
        NCCL_ERROR,
        "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
        "via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 10000ms",
    ],
)
def test_a_rank_that_leaves_because_of_another_is_no_culprit(world: int, error: str) -> None:
    assert culprits(ends(world, {1: (1, T0 + 10.5)}, log("rank1.log", *traceback(1, error)))) == []


def test_an_exit_status_above_the_signals_is_no_signal() -> None:
    found = verdict_of(
        [log("mpi.log", "MPI_ABORT was invoked on rank 1 in communicator MPI_COMM_WORLD with errorcode 255")]
    )
    assert "exit code 255" in said(found)
    assert "signal 127" not in said(found)


def test_each_after_shock_is_excused_by_what_applied_to_it() -> None:
    exits = {0: (-9, T0 + 12), 1: (-6, T0 + 21), 2: (1, T0 + 40), 3: (1, None)}
    text = said(ends(4, exits, *timeouts(4, without=0)))
    assert "rank 1 ended by a signal that takes victims down (SIGABRT)" in text.replace("Rank 1", "rank 1")
    assert "rank 2 ended after the first time-out (exit code 1)" in text
    assert "rank 3 ended at an unknown time (exit code 1): by itself that accuses nobody" in text


TORCHRUN = """
Root Cause (first observed failure):
[0]:
  time      : {first}
  host      : node-3
  rank      : 5 (local_rank: 5)
  exitcode  : {code} (pid: 9249)
"""


def test_torchruns_time_is_told_and_its_line_is_quoted_once() -> None:
    found = verdict_of([log("t.log", *TORCHRUN.format(first="2026-03-02_08:14:54", code=-7).splitlines())])
    (culprit,) = (s for s in found.suspects if s.role.value == "culprit")
    assert culprit.why == "ended at 2026-03-02 08:14:54 of its host's clock: SIGBUS"


def test_an_out_of_memory_kill_is_told_in_words_before_its_line() -> None:
    killed = (
        "[44930.3] Memory cgroup out of memory: Killed process 5002 (python) total-vm:3kB, anon-rss:9kB, file-rss:3kB"
    )
    found = ends(4, {2: (-9, None)}, kernel(killed))
    (culprit,) = (s for s in found.suspects if s.role.value == "culprit")
    assert culprit.why.endswith("SIGKILL (out of memory)")
    assert culprit.rank == 2


def test_the_exit_code_that_is_known_is_not_asked_for() -> None:
    found = ends(4, {3: (0, T0 + 12)}, *timeouts(4, without=3))
    assert culprits(found) == [3]
    assert not any("exit code" in text for text in found.would_decide)


def test_a_plain_exit_before_any_work_that_nothing_explains_is_only_suspected() -> None:
    refused = Blob("ras/1795986405.000-0.error.txt", b"ConnectionRefusedError(111, 'Connection refused')")
    verdict = verdict_of([instance(world=2, exits={1: (1, T0 + 12)}), refused])
    assert culprits(verdict) == []
    assert [suspect.rank for suspect in verdict.suspects if suspect.role.value == "suspect"] == [1]


def test_a_plain_exit_before_any_work_with_an_error_of_its_own_is_convicted() -> None:
    refused = Blob("ras/1795986405.000-0.error.txt", b"ConnectionRefusedError(111, 'Connection refused')")
    trace = b'Traceback (most recent call last):\n  File "serve.py", line 3, in <module>\nImportError: no engine\n'
    verdict = verdict_of([instance(world=2, exits={1: (1, T0 + 12)}), refused, Blob("logs/rank1.log", trace)])
    assert culprits(verdict) == [1]
