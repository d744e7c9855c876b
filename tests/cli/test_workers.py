"""Without the native reader files are read by processes: they end with the program, however that ends."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rankmuster.cli.status import CommandError
from rankmuster.cli.workers import FEW, each_on_all_cores
from rankmuster.evidence import flight_native

READS_FOR_EVER = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where a shell ignores it
from rankmuster.cli.workers import FEW, each_on_all_cores

def read(part):
    os.write(1, b"%d\\n" % os.getpid())  # one write: print makes two where Python is told not to buffer
    time.sleep(60)

list(each_on_all_cores(2)(read, range(10 * FEW)))
"""


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone while it was read
        return False


@pytest.fixture
def without_native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(flight_native.SWITCH, "0")


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_the_program(end: signal.Signals, without_native: None) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", READS_FOR_EVER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as program:
        assert program.stdout is not None
        workers = {int(program.stdout.readline()), int(program.stdout.readline())}
        assert len(workers) == 2
        if end is signal.SIGINT:
            for pid in (*workers, program.pid):  # a terminal's Ctrl-C goes to all
                os.kill(pid, end)
        else:
            program.send_signal(end)
        deadline = time.monotonic() + 20
        while any(map(is_there, workers)) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = [pid for pid in workers if is_there(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        assert not left


class _File(int):
    @property
    def path(self) -> str:
        return str(int(self))


def _end_of_itself(part: _File) -> int:
    if part == FEW + 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return part


def _end_in_the_middle_of_a_result(part: int) -> int | _Dying:
    return _Dying() if part == FEW + 2 else part


class _Dying:
    """Kills its process when it is to be sent."""

    def __reduce__(self) -> tuple[type, tuple[()]]:
        os.kill(os.getpid(), signal.SIGKILL)
        return _Dying, ()


def _fails(part: int) -> int:
    if part == FEW:
        raise ValueError(f"{part} is odd")
    return part


def test_a_reading_process_that_is_killed_is_said_with_what_to_do(without_native: None) -> None:
    with pytest.raises(CommandError, match=r"that was reading 18 was killed, most often because memory ran out"):
        list(each_on_all_cores(2)(_end_of_itself, map(_File, range(4 * FEW))))


def test_one_that_is_killed_while_it_tells_is_said_too(without_native: None) -> None:
    with pytest.raises(CommandError, match="was killed"):
        list(each_on_all_cores(2)(_end_in_the_middle_of_a_result, range(4 * FEW)))


def test_what_a_process_raises_is_raised_here(without_native: None) -> None:
    with pytest.raises(ValueError, match="16 is odd"):
        list(each_on_all_cores(2)(_fails, range(4 * FEW)))


def test_who_wants_no_more_leaves_no_process_behind(without_native: None) -> None:
    results = iter(each_on_all_cores(2)(abs, range(10**6)))
    assert [next(results) for _ in range(20)] == list(range(20))
    results.close()  # type: ignore[attr-defined]
    assert multiprocessing.active_children() == []
