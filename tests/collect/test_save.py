"""One whole collection: what it keeps however little time there is, and however late something comes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rankmuster.collect.bundle.verify import verify
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.search import Request as Wanted
from rankmuster.collect.look_for import look_for
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.pool import Task
from rankmuster.collect.save import Request, save
from rankmuster.collect.sink import Sink, Store

NOBODY = (2**22 + 7,)
"""A pid above what Linux gives: no instance is found, whatever else runs on this machine."""


@dataclass(frozen=True)
class Made:
    """A collector made of a function."""

    name: str
    work: Callable[[Sink], object]
    budget_seconds: float = 20.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        self.work(sink)
        return Outcome(Ending.DONE, "one file")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """Without processes."""
    (tmp_path / "proc").mkdir()
    return Machine(proc=tmp_path / "proc")


def tasks(work: Callable[[Sink], object]) -> Callable[[Store], tuple[Task, ...]]:
    return lambda _store: (Task(Made("kernel", work)),)


@pytest.mark.parametrize(("seconds", "spent"), [(2.0, 0.0), (2.0, 1.9), (20.0, 19.5), (20.0, 600.0)])
def test_something_is_taken_however_slowly_the_program_began(
    tmp_path: Path, machine: Machine, seconds: float, spent: float
) -> None:
    """600 s: a shell that slept before it became this program (`exec`) began then, and nothing else did."""
    begun = time.monotonic()

    def look(sink: Sink) -> None:
        time.sleep(0.1)  # what the first look at anything takes
        sink.put("kernel.txt", b"all of it")

    saved = save(Request(tmp_path / "out", seconds, NOBODY, spent_seconds=spent), machine=machine, tasks=tasks(look))
    assert saved.path is not None, saved.headline
    assert verify(saved.path).ok
    assert (saved.path / "kernel.txt").read_bytes() == b"all of it"
    assert saved.reports[0].outcome.ending is Ending.DONE
    assert time.monotonic() - begun < 15


def test_what_comes_while_the_bundle_is_closed_counts(tmp_path: Path, machine: Machine) -> None:
    """A collector's report was made already when its piece came; the piece is evidence all the same."""
    reporting, kept = threading.Event(), threading.Event()

    def late(sink: Sink) -> None:
        reporting.wait(20)
        sink.put("kernel.txt", b"the last words")
        kept.set()
        threading.Event().wait(20)

    def clock() -> float:
        # asked by the report, after it has listed the files
        if hurried.is_set() and threading.current_thread() is threading.main_thread():
            reporting.set()
            kept.wait(20)
        return time.monotonic()

    hurried = threading.Event()

    def hurry() -> bool:
        hurried.set()
        return True

    saved = save(Request(tmp_path / "out", 20.0, NOBODY), machine=machine, tasks=tasks(late), hurry=hurry, clock=clock)
    assert saved.path is not None, saved.headline
    result = verify(saved.path)
    assert result.ok
    assert result.manifest is not None
    assert result.manifest.document["collectors"]["kernel"]["files"] == ["kernel.txt"]


def test_no_thread_left_for_nvml_is_no_reason_to_stop(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod at its limit of processes and threads: the interpreter raises, and /proc can still be read."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    sought = look_for(machine, Wanted(NOBODY, None), now=0.0, deadline=Deadline.after(5.0))
    assert sought.target is None
