"""What the readers of text logs owe on any bytes: an answer, and no exception."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import (
    crash_log,
    engine_log,
    exceptions,
    log_span,
    stacks,
    torch_log,
    torch_store,
    worker_deaths,
)
from rankmuster.evidence.blob import Blob, Reading

READERS = [
    module.READER
    for module in (crash_log, engine_log, exceptions, log_span, stacks, torch_log, torch_store, worker_deaths)
]
SAMPLE = b"""\
[rank9]:[E318 08:49:08.965849361 ProcessGroupNCCL.cpp:607] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(\
SeqNum=2, OpType=ALLREDUCE, NumelIn=8, NumelOut=4, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.
[rank9]:[E318 08:49:08.97 ProcessGroupNCCL.cpp:2057] [PG ID 4 PG GUID 45 Rank 1]  failure detected by watchdog at work \
sequence id: 2 PG status: last enqueued work: 2, last completed work: -1
\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the desync are:
\t     [2] finished collective #379, but didn't join collective #380 (count from 1)
[rank9]:[E318 08:49:09.1 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: \n\
#0 all_reduce from /t/distributed_c10d.py:3068
[E616 02:08:15.93 socket.cpp:1023] [c10d] The client socket has timed out after 600000ms while trying to connect to (h, 29500).
(VllmWorker rank=0 pid=81) ERROR 01-04 17:21:04 m.py:401] Traceback (most recent call last):
(VllmWorker rank=0 pid=81) ERROR 01-04 17:21:04 m.py:401]   File "/v/b.py", line 3, in other
(VllmWorker rank=0 pid=81) ERROR 01-04 17:21:04 m.py:401] torch.OutOfMemoryError: CUDA out of memory. GPU 0 has
[2025-03-09 00:57:15 TP4] Watchdog timeout (self.watchdog_timeout=300)
[2026-11-29 20:00:00 TP0] Decode batch, #running-req: 5, gen throughput (token/s): 91.20, #queue-req: 2
srun: error: node3: tasks 1,3-5: Killed
  time      : 2025-05-21_15:43:03
  rank      : 8 (local_rank: 0)
  exitcode  : -9 (pid: 14750)
Thread 10366 (idle): "MainThread"
    wait4 (libc.so.6)
Current thread 0x00007fce47ae1480 (most recent call first):
  File "/p/threading.py", line 320 in wait
RuntimeError: CUDA error: unspecified launch failure
"""
LINES = SAMPLE.splitlines(keepends=True)
NUMBERS = [b"9" * 5000, b"-1", b"0", b"", b"\xff\xfe", b"\0" * 50, b"[" * 300, b"(" * 300, b"e\xcc\x81"]


def answers(data: bytes) -> None:
    for reader in READERS:
        blob = Blob("logs/rank1.log", data)
        reader.recognises(blob)
        assert isinstance(reader.read(blob), Reading)


def test_every_reader_finds_its_own_in_the_sample():
    for reader in READERS:
        blob = Blob("logs/all.log", SAMPLE)
        assert reader.recognises(blob), reader.name
        reading = reader.read(blob)
        assert reading.observations, reader.name
        assert reading.known, reader.name


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(SAMPLE)), st.integers(0, len(SAMPLE)))
def test_cut_anywhere(start, end):
    answers(SAMPLE[start:end])
    answers(SAMPLE[:end])


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=400))
def test_random_bytes(data):
    answers(data)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(LINES), max_size=30), st.integers(0, 200))
def test_lines_in_any_order_with_a_cut(lines, cut):
    answers(b"".join(line[: len(line) - (i == 0) * cut] for i, line in enumerate(lines)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(SAMPLE) - 1), st.integers(0, 255)), max_size=20))
def test_flipped_bytes(flips):
    data = bytearray(SAMPLE)
    for place, value in flips:
        data[place] = value
    answers(bytes(data))


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(NUMBERS), st.integers(0, len(SAMPLE)))
def test_inserted_monsters(monster, place):
    answers(SAMPLE[:place] + monster + SAMPLE[place:])


@pytest.mark.parametrize("number", [b"9" * 5000, b"-" + b"9" * 25])
def test_numbers_of_any_size(number):
    import re

    answers(re.sub(rb"\d+", number, SAMPLE))


def test_windows_line_ends_change_nothing():
    for reader in READERS:
        unix = reader.read(Blob("a", SAMPLE)).observations
        assert reader.read(Blob("a", SAMPLE.replace(b"\n", b"\r\n"))).observations == unix, reader.name


def test_long_lines_are_read_in_linear_time():
    # 2 MB in which every bounded repetition of the patterns is offered its worst food.
    import time

    food = b"".join(
        [
            b"CUDA error " + b"cudaGetDeviceCount() " * 20_000 + b"\n",
            b"Watchdog caught WorkNCCL(" + b"a=b, " * 60_000 + b"\n",
            b"Traceback (most recent call last):\n" + b"a." * 100_000 + b"\n",
            b"srun: error: " + b"n: task " * 40_000 + b"\n",
            b"To our best knowledge, ranks [" + b"1, " * 60_000 + b"\n",
            b"Thread 1 (idle" + b"(" * 200_000 + b"\n",
            b"[2026-11-29 20:00:00" + b" TP1" * 60_000 + b"\n",
        ]
    )
    begun = time.monotonic()
    answers(food)
    # Reading takes some 0.1 s; a pattern that backtracks takes minutes.
    assert time.monotonic() - begun < 20
