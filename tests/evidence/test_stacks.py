"""Stacks from several tools, innermost frame first, so that the place where a thread stands is frames[0]."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.stacks import READER
from rankmuster.model.frameworklog import ThreadStack


def read(text: str, path: str = "all.log") -> list[ThreadStack]:
    blob = Blob(path, text.encode())
    assert READER.recognises(blob)
    return [x for x in READER.read(blob).observations if isinstance(x, ThreadStack)]


def test_py_spy():
    main, other = read(
        "[2026-03-17 17:31:53 TP1] Pyspy dump for PID 10366:\nProcess 10366: sglang::scheduler_TP1\n"
        'Python v3.12.3 (/usr/bin/python3.12)\n\nThread 10366 (idle): "MainThread"\n    wait4 (libc.so.6)\n'
        '    poll (multiprocessing/popen_fork.py:27)\nThread 13170 (active+gil): "Thread-1 (_watchdog_thread)"\n'
        "    0x7f983b82a1ca (libc.so.6)\n\nother words\n"
    )
    assert (main.tool, main.thread, main.origin.pid) == ("py-spy", "MainThread", 10366)
    assert main.frames == ("wait4 (libc.so.6)", "poll (multiprocessing/popen_fork.py:27)")
    assert (other.thread, other.frames) == ("Thread-1 (_watchdog_thread)", ("0x7f983b82a1ca (libc.so.6)",))


def test_faulthandler():
    first, current = read(
        'Thread 0x00007fce47ae1480 (most recent call first):\n  File "/p/threading.py", line 320 in wait\n'
        '  File "/s/scheduler.py", line 1147 in process_batch_result\n\n'
        'Current thread 0x00007fce00000001 [python] (most recent call first):\n  File "/c.py", line 1 in all_reduce\n',
        "logs/rank1.log",
    )
    assert first.frames[0] == "wait (/p/threading.py:320)"
    assert first.origin.rank == 1
    assert (current.thread, current.tool) == ("python (current)", "faulthandler")


def test_torchs_stack_of_the_failed_collective():
    [stack] = read(
        "[rank1]:[E1129 21:11:23.96 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: \n"
        "#0 all_gather from /t/distributed_c10d.py:4079\n#1 wrapper from /t/c10d_logger.py:83\n\n"
    )
    assert (stack.tool, stack.origin.rank) == ("torch", 1)
    assert stack.frames == ("all_gather (/t/distributed_c10d.py:4079)", "wrapper (/t/c10d_logger.py:83)")


def test_vllms_watchdog_dump_has_the_time_of_its_header():
    [stack] = read(
        ">>> Call stack dump #1 at Sun Nov 29 20:00:00 2026 due to feed timeout\n"
        'Thread 0x00007fce47ae1480 (most recent call first):\n  File "/v/shm.py", line 3 in acquire_read\n'
    )
    assert stack.tool == "vllm"
    assert stack.origin.stamp is not None


def test_gdb():
    [stack] = read(
        'Thread 3 (Thread 0x7f11 (LWP 99) "python"):\n#0  0x00007ff in poll () from /lib/libc.so.6\n#1  main (argc=1) at x.c:3\n'
    )
    assert (stack.tool, stack.frames) == ("gdb", ("poll (/lib/libc.so.6)", "main (x.c:3)"))


def test_words_about_threads_are_not_stacks():
    blob = Blob(
        "x.log", b"Thread pool of 3 started\nStack trace of the failed collective not found, potentially because\n"
    )
    assert READER.read(blob).observations == ()
