"""Exceptions of every writer, the cause apart from its consequences."""

# ruff: noqa: E501 - log lines stand here as they were written

from __future__ import annotations

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.exceptions import READER
from rankmuster.model.frameworklog import PythonException
from rankmuster.model.problem import ProblemKind

P0 = "(VllmWorker rank=0 pid=81) ERROR 01-04 17:21:04 multiproc_executor.py:401] "
P1 = "(VllmWorker rank=1 pid=82) ERROR 01-04 17:21:04 multiproc_executor.py:401] "


def read(text: str, path: str = "all.log") -> list[PythonException]:
    found = READER.read(Blob(path, text.encode())).observations
    assert all(isinstance(x, PythonException) for x in found)
    return list(found)


def test_interleaved_tracebacks_of_two_workers_are_kept_apart():
    first, second = read(
        f"{P0}Traceback (most recent call last):\n"
        f'{P0}  File "/v/multiproc_executor.py", line 397, in worker_busy_loop\n'
        f"{P1}Traceback (most recent call last):\n"
        f"{P0}    output = getattr(self.worker, method)(*args, **kwargs)\n"
        f"{P0}             ^^^^^^^^^^^^\n"
        f'{P1}  File "/v/b.py", line 3, in other\n'
        f"{P0}RuntimeError: CUDA error: an illegal memory access was encountered\n"
        f"{P1}torch.distributed.DistBackendError: NCCL error in: P.cpp:94, remote process exited or there was a network "
        "error, NCCL version 2.27.5\n"
        f"{P1}ncclRemoteError: A call failed possibly due to a network error.\n"
        f"{P1}Last error:\n"
        f"{P1}socketPollConnect: connect returned Connection refused\n"
    )
    assert (first.origin.rank, first.name, first.consequence) == (0, "RuntimeError", False)
    assert first.where == "worker_busy_loop /v/multiproc_executor.py:397"
    assert (second.origin.rank, second.name, second.consequence) == (1, "torch.distributed.DistBackendError", True)
    assert second.message.endswith("connect returned Connection refused")


def test_sglangs_record_goes_on_without_prefix():
    [found] = read(
        "[2025-01-20 19:10:07 TP2] Scheduler hit an exception: Traceback (most recent call last):\n"
        '  File "/s/scheduler.py", line 1652, in run_scheduler_process\n'
        "    scheduler = Scheduler(server_args)\n"
        "KeyError: 'layers.0'\n\n"
        "[2025-01-20 19:10:08 TP0] Decode batch. #running-req: 1\n"
    )
    assert (found.origin.rank, found.name, found.message) == (2, "KeyError", "'layers.0'")
    assert found.origin.stamp is not None


def test_in_a_chain_the_first_is_the_cause():
    cause, effect = read(
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\nKeyError: 1\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\n    raise RuntimeError\nRuntimeError\n',
        "logs/rank3.log",
    )
    assert (cause.name, cause.consequence, cause.origin.rank) == ("KeyError", False, 3)
    assert (effect.name, effect.message, effect.consequence) == ("RuntimeError", "", True)


def test_exceptions_that_point_elsewhere_are_consequences():
    texts = (
        "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. See stack trace (above) for the root cause.",
        "RuntimeError: Worker failed with error 'x', please check the stack trace above for the root cause",
        "RuntimeError: [../gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.5]:12345",
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "KeyboardInterrupt",
    )
    for text in texts:
        [found] = read(f'Traceback (most recent call last):\n  File "a.py", line 1, in f\n{text}\n')
        assert found.consequence, text
    [cause] = read(
        '[rank3]: Traceback (most recent call last):\n[rank3]:   File "a.py", line 1, in f\n[rank3]: ValueError: x\n'
    )
    assert not cause.consequence
    assert cause.origin.rank == 3


def test_handled_tracebacks_and_words_are_no_exceptions():
    assert not read(
        "WARNING 11-29 20:00:00 [f.py:1] Traceback (most recent call last):\n"
        'WARNING 11-29 20:00:00 [f.py:1]   File "b.py", line 2, in g\n'
        "WARNING 11-29 20:00:00 [f.py:1] ImportError: no x\n"
        "[rank0]:[W1129 21:08:32.02 Utils.hpp:137] Warning: Environment variable X is deprecated\n"
        "INFO 11-29 20:00:00 [f.py:1] ValueError: not at all\n"
    )


def test_a_cut_traceback_is_a_problem_that_tells_its_innermost_frame():
    reading = READER.read(Blob("x.log", b'Traceback (most recent call last):\n  File "c.py", line 9, in cut\n'))
    [problem] = reading.problems
    assert problem.kind is ProblemKind.DAMAGED
    assert "cut c.py:9" in problem.message
    assert reading.observations == ()


def test_a_server_that_fails_each_request_is_told_once():
    text = 'Traceback (most recent call last):\n  File "a.py", line 1, in f\nValueError: x\n' * 300
    assert len(read(text)) == 1
