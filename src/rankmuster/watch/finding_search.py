"""One full search of the node for instances, in a thread that nobody waits for longer than they want.

It is `collect`'s own search. What NVML said is remembered with the start times of its processes, so that NVML, which
costs a child process each time, is asked once for the same ranks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Found, Request, find
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.nvml_session import Listed
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.collect.target import Role
from rankmuster.watch.finding_known import Key, key

NVML_SECONDS = 3.0
"""For NVML's list of processes: with persistence mode off the driver takes seconds to load."""

NVML_AGAIN_SECONDS = 900.0
"""Between two times that NVML is asked where it did not help: it costs a child process of 0.2 s each time."""

MAX_LEFT_BEHIND = 16
"""Threads of earlier searches that still wait for stuck processes, above which no search is made: each costs memory."""

LEFT_BEHIND = "patient"
"""Name of the threads in which `collect.bounded.each` reads what may block."""


def left_behind() -> int:
    """How many reads of earlier searches have not returned yet."""
    return sum(thread.name == LEFT_BEHIND for thread in threading.enumerate())


@dataclass
class Search:
    """One search in a thread of its own. `error`: why there is nothing `found`. `cost`: processor seconds, at most."""

    work: Callable[[], Found]
    found: Found | None = None
    error: str = ""
    cost: float = 0.0
    done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        """Begins; `done` is set at the end."""
        try:
            threading.Thread(target=self._run, name="find", daemon=True).start()
        except RuntimeError as error:  # the limit on threads
            self.error = f"no thread could be started for the search ({error})"
            self.done.set()

    def _run(self) -> None:
        began, spent = time.monotonic(), time.process_time()
        try:
            self.found = self.work()
        except Exception as error:  # a defect in finding must not end a watch of months
            self.error = f"the search failed ({type(error).__name__}: {error})"
        # Other threads' work counts in the one, waiting in the other: the truth is below both.
        self.cost = min(time.monotonic() - began, time.process_time() - spent)
        self.done.set()


@dataclass(frozen=True, slots=True)
class _Nvml:
    """What NVML said at `at` (monotonic seconds), and of which processes it was asked. `started`: host pid -> ticks."""

    at: float
    asked: frozenset[Key]
    listed: Listed | None
    started: Mapping[int, int]


class NodeSearch:
    """Searches one node. `ask_nvml`: asks NVML for its processes within so many seconds; None where it cannot say."""

    def __init__(
        self,
        machine: Machine,
        ask_nvml: Callable[[float], Listed | None],
        *,
        clock: Callable[[], float],
        unix_now: Callable[[], float],
    ) -> None:
        self._machine = machine
        self._proc = Proc(machine.proc)
        self._ask_nvml = ask_nvml
        self._clock = clock
        self._unix_now = unix_now
        self._nvml: _Nvml | None = None

    def search(self, request: Request) -> Found:
        """What `collect` finds. NVML is asked where /proc does not tell a rank's GPU, once for the same ranks."""
        nvml = self._nvml
        gpus = _gpus(nvml.listed.gpus) if nvml is not None and nvml.listed is not None else ()
        said = {} if nvml is None or nvml.listed is None else self._still(nvml.listed, nvml.started)
        found = find(self._machine, request, now=self._unix_now(), gpu_processes=said or None, gpus=gpus)
        lacking = _lacking(found)
        again = nvml is None or self._clock() - nvml.at >= NVML_AGAIN_SECONDS
        new = nvml is None or not lacking <= nvml.asked
        if (lacking and (new or (again and not said))) or (not found.targets and again):
            # NVML's processes may be instances that nothing else tells.
            answer = self._ask_nvml(NVML_SECONDS)
            started = self._ticks(answer.processes) if answer is not None else {}
            self._nvml = _Nvml(self._clock(), lacking, answer, started)
            if answer is not None:
                processes = {pid: _gpus(those) for pid, those in answer.processes.items()}
                found = find(
                    self._machine, request, now=self._unix_now(), gpu_processes=processes, gpus=_gpus(answer.gpus)
                )
        return found

    def _ticks(self, pids: Mapping[int, object]) -> dict[int, int]:
        found: dict[int, int] = {}
        for pid in pids:
            try:
                stat = self._proc.stat(pid)
            except (NotAllowed, OSError):
                continue
            if stat is not None:
                found[pid] = stat.start_ticks
        return found

    def _still(self, said: Listed, started: Mapping[int, int]) -> dict[int, tuple[Gpu, ...]]:
        """NVML's processes that are the same ones now as when it was asked."""
        now = self._ticks(said.processes)
        return {
            pid: _gpus(those) for pid, those in said.processes.items() if pid in now and now[pid] == started.get(pid)
        }


def _gpus(said: tuple[tuple[int, str], ...]) -> tuple[Gpu, ...]:
    return tuple(Gpu(index, uuid or None) for index, uuid in said)


def _lacking(found: Found) -> frozenset[Key]:
    """Processes that may be ranks and whose GPU /proc does not tell for certain (as in `collect.look_for`)."""
    lacking: set[Key] = set()
    for target in found.targets:
        workers = target.workers
        if not workers:
            lacking |= {key(process) for process in target.processes if process.role is not Role.HELPER}
        lacking |= {key(one) for one in workers if not one.gpus or one.inner_pid != one.pid}
    return frozenset(lacking)
