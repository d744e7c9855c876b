"""Lines that come piece by piece say what they say in a bundle."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from log_target import WATCHDOG

from rankmuster.evidence import folder
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.unpack import unpack
from rankmuster.model.frameworklog import EngineStats, PythonException, WatchdogTimeout
from rankmuster.model.kernel import OomKill
from rankmuster.model.nccllog import NcclProblem
from rankmuster.model.plane import Plane
from rankmuster.watch.signals import log_text
from rankmuster.watch.signals.log_text import LogText, readers
from rankmuster.watch.signals.log_wrapped import Unwrapper

CASES = Path(__file__).parents[2] / "cases"
PLANES = (Plane.FRAMEWORK_LOG, Plane.NCCL_LOG)
TRACEBACK = b"""Traceback (most recent call last):
  File "/app/worker.py", line 3, in step
    boom()
RuntimeError: it broke
"""


def _blobs(case: str) -> list[Blob]:
    """The logs of a captured case."""
    parts = [
        part
        for item in folder.walk(CASES / case / "input.tar.zst")
        if isinstance(item, Blob)
        for part in unpack(item, Allowance())
    ]
    return [part for part in parts if isinstance(part, Blob) and "logs/" in part.path and part.data.endswith(b"\n")]


@pytest.mark.parametrize(
    "case", ["rank-frozen", "cuda-assert", "tp2-exit0", "exception", "link-cut-two-nodes", "init-exit"]
)
def test_a_captured_log_in_pieces_says_what_the_whole_says(case: str) -> None:
    blobs = _blobs(case)
    assert blobs
    for blob in blobs:
        _compare(blob.path, blob.data)


def _compare(name: str, data: bytes) -> None:
    whole: Counter[str] = Counter()
    for known in readers(*PLANES).values():
        for kind, found in gather([Blob(name, data)], known).by_type.items():
            if kind not in log_text.NOT_SAID:
                whole[kind.__name__] += min(len(found), log_text.MOST_OF_A_KIND)
    log = LogText(name, PLANES)
    lines = data.splitlines(keepends=True)
    told: Counter[str] = Counter()
    for start in range(0, len(lines), 40):
        told.update(type(one).__name__ for _, _, one in log.take(b"".join(lines[start : start + 40]), start))
    told.update(type(one).__name__ for _, _, one in log.take(b"", len(lines), final=True))
    assert whole.keys() == told.keys()
    assert all(told[kind] >= count for kind, count in whole.items() if count < log_text.MOST_OF_A_KIND)


def test_a_traceback_that_a_look_has_cut_is_one() -> None:
    log = LogText("logs/rank3-stderr.log", PLANES)
    head, tail = TRACEBACK[:60], TRACEBACK[60:]
    cut = head.rfind(b"\n") + 1
    assert log.take(b"hello\n" + head[:cut], 10.0) == []
    assert log.take(head[cut:] + tail, 15.0)[0][:2] == (10.0, Plane.FRAMEWORK_LOG)
    [(_, _, said)] = LogText("logs/rank3-stderr.log", PLANES).take(TRACEBACK, 1.0, final=True)
    assert isinstance(said, PythonException)
    assert said.origin.rank == 3
    assert said.message == "it broke"


def test_a_log_that_fails_all_the_time_is_read_in_time() -> None:
    log = LogText("logs/x.log", PLANES)
    told = [log.take(TRACEBACK, float(at)) for at in range(6)]
    assert [len(one) > 0 for one in told] == [False, False, True, False, False, True]


def test_more_lines_than_may_wait_do_not_wait() -> None:
    log = LogText("logs/x.log", PLANES)
    assert log.take(TRACEBACK + b"x\n" * log_text.MOST_HELD, 1.0)


def test_lines_are_counted_over_all_looks() -> None:
    log = LogText("logs/x.log", PLANES)
    log.take(b"one\ntwo\r\nthree\r", 1.0)
    [(_, _, said)] = log.take(WATCHDOG.format(rank=2).encode(), 2.0, final=True)
    assert isinstance(said, WatchdogTimeout)
    assert said.origin.reference == "logs/x.log#L4"


def test_calls_and_channels_of_nccl_are_not_said_but_warnings_are() -> None:
    call = (
        b"node0:7:7 [0] NCCL INFO AllReduce: opCount 1 sendbuff 0x7f recvbuff 0x7f count 1 datatype 7 op 0 comm 0x5\n"
    )
    warn = b"node0:7:9 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.1<5> failed : refused\n"
    log = LogText("nccl/x.log", (Plane.NCCL_LOG,))
    found = log.take(call * 300 + warn, 1.0)
    assert [type(one) for _, _, one in found] == [NcclProblem]
    assert found[0][2].origin.line == 301


def test_what_repeats_itself_is_told_a_bounded_number_of_times() -> None:
    line = (
        b"INFO 11-30 03:00:00 [loggers.py:1] Engine 000: Avg prompt throughput: 1.0 tokens/s, "
        b"Avg generation throughput: 3.0 tokens/s, Running: 3 reqs, Waiting: 0 reqs\n"
    )
    found = LogText("logs/x.log", PLANES).take(line * 1000, 1.0)
    assert {type(one) for _, _, one in found} == {EngineStats}
    assert len(found) == log_text.MOST_OF_A_KIND


def test_no_secret_of_a_line_goes_on() -> None:
    text = TRACEBACK.replace(b"it broke", b"401 for hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ012345678 at https://x")
    [(_, _, said)] = LogText("logs/x.log", PLANES).take(text, 1.0, final=True)
    assert "hf_aBc" not in said.message
    assert said.message.startswith("401 for ")


@pytest.mark.parametrize(
    "data", [b"", b"\n\n\n", b"\xff" * 1000 + b"\n", bytes(range(256)) * 20, b"PK\x03\x04" + b"x" * 99 + b"\n"]
)
def test_anything_may_come(data: bytes) -> None:
    log = LogText("logs/x.log", PLANES)
    assert log.take(data, 1.0) == []
    assert log.take(b"", 2.0, final=True) == []


def test_an_oom_kill_that_a_look_has_cut_is_one() -> None:
    lines = (
        b"2026-11-30T03:00:00.000000+00:00 n kernel: python invoked oom-killer: gfp_mask=0x0\n"
        b"2026-11-30T03:00:00.000100+00:00 n kernel: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),"
        b"task_memcg=/kubepods/pod1,task=python,pid=77,uid=0\n"
        b"2026-11-30T03:00:00.000200+00:00 n kernel: Memory cgroup out of memory: Killed process 77 (python) "
        b"total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:1kB oom_score_adj:0\n"
    ).splitlines(keepends=True)
    log = LogText("kernel/dmesg.txt", (Plane.KERNEL,))
    found = [*log.take(b"".join(lines[:2]), 1.0), *log.take(lines[2], 2.0), *log.take(b"", 3.0)]
    assert [(type(one), one.pid, one.cgroup) for _, _, one in found] == [(OomKill, 77, True)]


def test_cri_lines_are_unwrapped_and_joined() -> None:
    unwrap = Unwrapper()
    stamp = b"2026-11-30T03:00:00.123456789Z"
    data = stamp + b" stderr F whole\n" + stamp + b" stderr P half \n" + stamp + b" stdout F between\n"
    assert unwrap.take(data) == b"whole\nbetween\n"
    assert unwrap.take(stamp + b" stderr F a line\n" + stamp + b" stderr F \n") == b"half a line\n\n"


def test_dockers_json_is_unwrapped() -> None:
    unwrap = Unwrapper()
    data = (
        b'{"log":"caf\\u00e9 \\"x\\"\\n","stream":"stderr","time":"2026-11-30T03:00:00Z"}\n'
        b'{"log":"half ","stream":"stdout","time":"2026-11-30T03:00:00Z"}\n{"log":"a line\\n","stream":"stdout"}\n'
        b'{"log":7}\n{"log":"cut\n'
    )
    assert unwrap.take(data) == 'café "x"\nhalf a line\n{"log":7}\n{"log":"cut\n'.encode()


def test_other_lines_are_left_as_they_are() -> None:
    data = b'{"timestamp":"2026","level":"INFO"}\r\nplain\n'
    assert Unwrapper().take(data) is data


def test_a_line_in_pieces_without_end_is_bounded() -> None:
    unwrap = Unwrapper()
    piece = b"2026-11-30T03:00:00.1234567Z stderr P " + b"x" * 16_384 + b"\n"
    for _ in range(50):
        assert unwrap.take(piece) == b""
    assert len(unwrap.take(b"2026-11-30T03:00:00.1234567Z stderr F end\n")) <= (64 << 10) + 1
