"""Prefixes say who wrote a line; a wrong rank would blame an innocent one."""

from __future__ import annotations

import pytest

from rankmuster.evidence import times
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.log_lines import Origins
from rankmuster.evidence.log_prefix import peel, rank_of_worker, signed, whole
from rankmuster.model.stamp import StampKind


@pytest.mark.parametrize(
    ("line", "rank", "pid", "worker", "engine", "message"),
    [
        ("[rank3]:[E1129 21:08:13.15 file.cpp:689] boom", 3, None, None, None, "boom"),
        ("[rank3]: RuntimeError: x", 3, None, None, None, "RuntimeError: x"),
        ("[80746] [rank0]:[E321 02:07:08.408271257 P.cpp:607] boom", 0, None, None, None, "boom"),
        ("[default3]:[rank11]:[E1129 21:08:13.15 f.cpp:1] boom", 11, None, None, None, "boom"),
        ("(Worker_TP3 pid=123) ERROR 11-29 20:00:00 [f.py:1] boom", 3, 123, "Worker_TP3", "vllm", "boom"),
        ("\x28VllmWorker rank=1 pid=7) ERROR 01-04 17:21:04 m.py:401] boom", 1, 7, "VllmWorker", "vllm", "boom"),
        ("(Worker_PP1_TP0 pid=9) INFO 11-29 20:00:00 [f.py:1] boom", None, 9, "Worker_PP1_TP0", "vllm", "boom"),
        ("[2026-11-29 20:00:00 DP0 TP3 EP3] boom", 3, None, "DP0 TP3 EP3", "sglang", "boom"),
        ("[11/29/2026-20:00:00] [TRT-LLM] [MPI_Rank 2] [E] boom", 2, None, None, "tensorrt-llm", "boom"),
        ("[TensorRT-LLM][ERROR] boom", None, None, None, "tensorrt-llm", "boom"),
        (
            "2024-08-11T09:36:31.93Z ERROR shard-manager: text_generation_launcher: boom rank=1",
            1, None, None, "tgi", "boom rank=1",
        ),
        (
            '{"timestamp":"2026-11-29T20:00:00Z","level":"ERROR","fields":{"message":"boom"},'
            '"target":"text_generation_launcher","span":{"rank":1,"name":"shard-manager"}}',
            1, None, None, "tgi", "boom",
        ),
        ("llm-server  | ERROR 11-08 11:01:29 [m.py:135] boom", None, None, None, "vllm", "boom"),
        ("2026-11-29T20:00:00.1Z stderr F [rank5]: boom", 5, None, None, None, "boom"),
        ("[1,4]<stderr>:boom", 4, None, None, None, "boom"),
    ],
)  # fmt: skip
def test_each_shape_names_its_writer(line, rank, pid, worker, engine, message):
    found = peel(line)
    assert (found.rank, found.pid, found.worker, found.engine, found.message) == (rank, pid, worker, engine, message)


def test_ray_prefix_gives_the_host_of_the_actor():
    found = peel("(RayWorkerWrapper pid=336, ip=10.99.48.129) ERROR 06-12 15:44:15 worker_base.py:148] boom")
    assert (found.host, found.pid, found.message) == ("10.99.48.129", 336, "boom")


def test_month_without_leading_zero_is_a_month():
    # torch writes 18 March as E318.
    assert peel("[rank9]:[E318 08:49:08.5 f.cpp:1] x").stamp == times.glog("E0318 08:49:08.5")


def test_rank_within_a_group_is_not_taken_for_the_global_rank():
    line = "[rank9]:[E318 08:49:08.96 P.cpp:2057] [PG ID 4 PG GUID 45 Rank 1] Process group watchdog thread terminated"
    origin, prefix = Origins(Blob("all.log", b"")).of(1, line)
    assert (origin.rank, origin.group_rank, prefix.group) == (9, 1, "45")
    other, _ = Origins(Blob("all.log", b"")).of(1, line.removeprefix("[rank9]:"))
    assert (other.rank, other.group_rank) == (None, 1)


def test_old_torch_without_global_prefix_falls_back_to_the_group_rank_of_the_default_group():
    origin, _ = Origins(Blob("all.log", b"")).of(1, "[E ProcessGroupNCCL.cpp:737] [Rank 6] Watchdog caught x")
    assert origin.rank == 6


def test_the_files_name_counts_only_where_the_line_names_nobody():
    origins = Origins(Blob("logs/rank2.log", b""))
    assert origins.of(1, "plain words")[0].rank == 2
    assert origins.of(2, "[rank0]: words")[0].rank == 0


def test_slurm_labels_are_ranks_only_where_every_line_has_one():
    labelled = b"0: one\n3: two\n1: three\n"
    assert Origins(Blob("job.out", labelled)).of(2, "3: two")[0].rank == 3
    assert Origins(Blob("job.out", b"words\n3: two\nmore\n")).of(2, "3: two")[0].rank is None


@pytest.mark.parametrize(
    ("name", "rank"),
    [("VllmWorker-3", 3), ("Worker_TP1_EP1", 1), ("Worker_PP2", 2), ("Worker_PP1_TP3", None), ("Worker_DP1_TP0", None),
     ("DP4 TP4", 4), ("PP1 TP0", None), ("EngineCore_DP0", None)],
)  # fmt: skip
def test_rank_from_a_workers_name_only_where_it_is_determined(name, rank):
    assert rank_of_worker(name) == rank


def test_stamps_know_how_much_they_know():
    vllm = peel("INFO 11-29 20:00:00 [f.py:1] x").stamp
    sglang = peel("[2026-11-29 20:00:00 TP0] x").stamp
    tgi = peel("2026-11-29T20:00:00.0Z  INFO text_generation_router: x").stamp
    assert vllm is not None
    assert vllm.kind is StampKind.LOCAL_NO_YEAR
    assert sglang is not None
    assert sglang.kind is StampKind.LOCAL
    assert tgi is not None
    assert tgi.kind is StampKind.UNIX


def test_numbers_of_any_length_do_no_harm():
    assert whole("9" * 5000) is None
    assert signed("-" + "9" * 5000) is None
    assert signed("-9") == -9
    assert whole("") is None
