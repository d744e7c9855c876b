"""Engines' own alarms, statistics and traffic paths."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import pytest

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.engine_log import READER
from rankmuster.model.frameworklog import EngineStats, EngineWatchdog, TrafficHint, TrafficPath


def read(text: str) -> tuple[object, ...]:
    return READER.read(Blob("all.log", text.encode())).observations


@pytest.mark.parametrize(
    ("line", "engine", "rank", "seconds", "weak"),
    [
        ("(EngineCore pid=1) INFO 02-27 10:31:24 [shm.py:466] No available shared memory broadcast block found in 60 seconds.",
         "vllm", None, 60.0, True),
        ("(EngineCore pid=1) ERROR 02-27 10:31:24 [core.py:466] TimeoutError: RPC call to execute_model timed out.",
         "vllm", None, None, False),
        ("[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)", "sglang", 4, 300.0, False),
        ("[2026-11-29 20:00:00 DP0 TP3] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
         "sglang", 3, 300.0, False),
        ("[11/29/2026-20:00:00] [TRT-LLM] [MPI_Rank 3] [E] Hang detected after 300 seconds.", "tensorrt-llm", 3, 300.0, False),
        ("[11/29/2026-20:00:00] [TRT-LLM] [E] Hang detected on rank 2 in PyExecutor.", "tensorrt-llm", 2, None, False),
    ],
)  # fmt: skip
def test_alarms(line, engine, rank, seconds, weak):
    [alarm] = read(line + "\n")
    assert isinstance(alarm, EngineWatchdog)
    assert (alarm.engine, alarm.rank, alarm.seconds, alarm.weak) == (engine, rank, seconds, weak)


def test_statistics_of_vllm_old_and_new_and_of_sglang():
    new, old, sglang = (
        x
        for x in read(
            "INFO 02-27 10:31:24 [loggers.py:1] Engine 000: Avg prompt throughput: 0.5 tokens/s, Avg generation throughput: "
            "12.3 tokens/s, Running: 3 reqs, Waiting: 1 reqs, GPU KV cache usage: 1.0%\n"
            "INFO 02-27 10:31:24 metrics.py:455] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 2.0 tokens/s, "
            "Running: 1 reqs, Swapped: 0 reqs, Pending: 4 reqs, GPU KV cache usage: 1.0%\n"
            "[2026-11-29 20:00:00 TP0] Decode batch, #running-req: 5, #token: 812, token usage: 0.01, cuda graph: True, "
            "gen throughput (token/s): 91.20, #queue-req: 2\n"
        )
        if isinstance(x, EngineStats)
    )
    assert (new.running, new.waiting, new.generation_tokens_per_s, new.prompt_tokens_per_s) == (3, 1, 12.3, 0.5)
    assert (old.running, old.waiting) == (1, 4)
    assert (sglang.engine, sglang.running, sglang.waiting, sglang.generation_tokens_per_s) == ("sglang", 5, 2, 91.2)


def test_paths_and_their_being_off():
    hints = [x for x in read(
        "INFO 03-19 08:09:02 pynccl.py:69] vLLM is using nccl==2.25.1\n"
        "INFO 03-19 08:09:02 pynccl.py:69] vLLM is using nccl==2.25.1\n"
        "WARNING 03-19 08:09:03 c.py:134] Custom allreduce is disabled because it's not supported on more than two GPUs.\n"
        "[2026-11-29 20:00:00 TP0] Capture cuda graph begin. This can take up to several minutes.\n"
    ) if isinstance(x, TrafficHint)]  # fmt: skip
    assert [(h.path, h.off) for h in hints] == [
        (TrafficPath.PYNCCL, False),
        (TrafficPath.CUSTOM_ALL_REDUCE, True),
        (TrafficPath.CUDA_GRAPHS, False),
    ]
