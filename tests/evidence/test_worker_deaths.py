"""Reports of dead workers: which one, with what exit code, and which the launcher saw first."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.worker_deaths import READER
from rankmuster.model.frameworklog import SignalDeath, WorkerDeath

TABLE = """\
E0325 20:57:27.620000 2606 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -9) \
local_rank: 0 (pid: 14750) of binary: /usr/bin/python
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
serve.py FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2025-05-21_15:43:05
  host      : nodeb
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 14751)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-05-21_15:43:03
  host      : nodea
  rank      : 8 (local_rank: 0)
  exitcode  : -9 (pid: 14750)
  error_file: <N/A>
  traceback : Signal 9 (SIGKILL) received by PID 14750
"""


def read(text: str) -> tuple[object, ...]:
    return READER.read(Blob("all.log", text.encode())).observations


def deaths(text: str) -> list[WorkerDeath]:
    return [x for x in read(text) if isinstance(x, WorkerDeath)]


@pytest.mark.parametrize(
    ("line", "engine", "worker", "rank", "pid", "code"),
    [
        ("ERROR 11-08 11:01:29 [multiproc_executor.py:135] Worker proc VllmWorker-3 died unexpectedly, shutting down executor.",
         "vllm", "VllmWorker-3", 3, None, None),
        ("(EngineCore_DP0 pid=265) ERROR 02-27 10:31:24 [m.py:231] Worker proc VllmWorker-2 died unexpectedly (exit code: -9)",
         "vllm", "VllmWorker-2", 2, None, -9),
        ("ERROR 02-27 10:31:24 [r.py:464] RayWorkerProc rank=[3] died unexpectedly, shutting down executor.",
         "vllm", "RayWorkerProc", 3, None, None),
        ("ERROR 07-04 10:00:00 m.py:120] Worker VllmWorkerProcess pid 3283517 died, exit code: -15",
         "vllm", "VllmWorkerProcess", None, 3283517, -15),
        ("[2025-01-20 19:10:07] Subprocess scheduler_0 (pid=77) crashed with exit code -6. Triggering SIGQUIT for cleanup...",
         "sglang", "scheduler_0", None, 77, -6),
        ("2024-08-11T09:36:32.02Z ERROR text_generation_launcher: Shard 1 crashed", "tgi", "shard 1", 1, None, None),
        ("[11/29/2026-20:00:00] [TRT-LLM] [E] Executor worker died during initialization",
         "tensorrt-llm", "executor worker", None, None, None),
        ("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD with errorcode 1.", "mpi", "rank 2", 2, None, 1),
        ("srun: error: node3: task 7: Killed", "slurm", "task 7", 7, None, None),
        ("srun: error: node3: task 0: Exited with exit code 1", "slurm", "task 0", 0, None, 1),
    ],
)  # fmt: skip
def test_each_report_names_its_worker(line, engine, worker, rank, pid, code):
    [death] = deaths(line + "\n")
    assert (death.engine, death.worker, death.rank, death.pid, death.exit_code) == (engine, worker, rank, pid, code)


def test_torchruns_table_gives_rank_host_time_and_the_first_failure():
    later, first = deaths(TABLE)
    assert (first.rank, first.pid, first.exit_code, first.host, first.first) == (8, 14750, -9, "nodea", True)
    assert (later.rank, later.exit_code, later.first) == (9, 1, False)
    assert first.origin.stamp is not None
    assert later.origin.stamp is not None
    assert first.origin.stamp.seconds == later.origin.stamp.seconds - 2


def test_a_negative_exit_code_is_a_signal_of_that_rank():
    [signal] = [x for x in read(TABLE) if isinstance(x, SignalDeath)]
    assert (signal.signal, signal.victim_rank, signal.victim_pid) == (9, 8, 14750)


def test_a_slurm_task_is_a_rank_only_where_no_torchrun_stands_between():
    [death] = deaths("srun: error: node3: task 1: Exited with exit code 1\n" + "failed at local_rank 3\n")
    assert (death.rank, death.host) == (None, "node3")


def test_slurm_task_lists_are_unfolded():
    assert [d.rank for d in deaths("srun: error: n1: tasks 1,3-5: Terminated\n")] == [1, 3, 4, 5]


def test_a_huge_task_range_is_bounded():
    assert len(deaths("srun: error: n1: tasks 0-99999999999: Killed\n")) <= 4096


def test_rays_report_gives_pid_and_host():
    [death] = deaths(
        "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
        "\tclass_name: RayWorkerWrapper\n\tactor_id: 17f7\n\tpid: 16424\n\tip: 11.11.12.211\n"
    )
    assert (death.engine, death.worker, death.pid, death.host) == ("ray", "RayWorkerWrapper", 16424, "11.11.12.211")


def test_words_about_failing_are_no_deaths():
    assert not read(
        "INFO 11-29 20:00:00 [f.py:1] the demo crashed\n[rank0]:[W1129 21:08:32.02 x.cpp:1] it failed to start fast\n"
    )
