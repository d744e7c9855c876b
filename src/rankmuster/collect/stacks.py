"""Where each worker's threads stand: Python stacks by py-spy, else what the kernel says of them.

py-spy reads the process's memory and never stops it here (`--nonblocking`): a tracer that is killed at its deadline may
leave its process frozen, and a hung process's stacks stand still anyway. A healthy instance is left alone all the same,
since reading costs processor time beside its ranks.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.collect.bounded import all_within
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.kernel_stacks import kernel_text
from rankmuster.collect.node.children import Ran, find_program, run
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.proc import Proc
from rankmuster.collect.process_now import state_of
from rankmuster.collect.sink import Sink, SinkClosed, SinkFull
from rankmuster.collect.target import ProcessOfInstance, Role, Target

PROCESS_SECONDS = 8.0
"""For one process: 0.1 s mostly, a few seconds where py-spy reads symbols of large libraries first."""

AT_ONCE = 4
"""py-spy runs at the same time: each takes most of a processor, and the ranks need theirs."""

MAX_STACK_BYTES = 4 << 20
"""Of one process: 300 threads of 60 frames have 1.5 MB."""

ATTEMPTS = 2
"""A stack that moves while it is read gives nonsense or an error; the second time mostly does not."""

ASSESSMENT_SHARE = 0.6
"""Of the time, how much may pass before it is known whether the instance is healthy."""

RESERVE_SECONDS = 0.5
"""Kept of the deadline for the kernel's view, where py-spy brings nothing."""

_HEADER_END = re.compile(rb"^Python v\d[^\n]*\n\n?(?=Thread )", re.MULTILINE)
_DENIED = re.compile(r"Permission Denied|Operation not permitted|os error (?:1|13)\)")


@dataclass(frozen=True, slots=True)
class Stacks:
    """The collector. `evidence`: what it takes speaks of the instance."""

    name: str = "stacks"
    budget_seconds: float = 18.0
    evidence: bool = True

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """See `Collector.collect`."""
        if not scene.wishes.stacks:
            return Outcome(Ending.DECLINED, "stacks are not wanted")
        processes = _looked_at(scene.target)
        if not processes:
            who = "worker or engine process lives on this node" if scene.target is not None else "instance was found"
            return Outcome(Ending.NOTHING, f"no {who}, so there is nobody whose stacks could be taken")
        if not scene.wishes.stop_confirmed:
            patience = deadline.within(deadline.remaining() * ASSESSMENT_SHARE)
            assessment = scene.board.assessment(patience)
            if assessment is not None and assessment.healthy:
                reason = assessment.reason.strip().rstrip(".")
                return Outcome(
                    Ending.DECLINED, f"stacks are not taken while work advances or there is none to do ({reason})"
                )
        return _Taking(scene, sink, deadline).run(processes)


@dataclass(frozen=True, slots=True)
class _Got:
    """`how`: py-spy, kernel, or empty when there is nothing; `why`: what kept py-spy's from being there."""

    process: ProcessOfInstance
    how: str = ""
    why: str = ""
    denied: bool = False


class _Taking:
    """One run of it."""

    def __init__(self, scene: Scene, sink: Sink, deadline: Deadline) -> None:
        self._scene, self._sink, self._deadline = scene, sink, deadline
        self._proc = scene.machine.proc
        self._slots = threading.Semaphore(AT_ONCE)
        self._pyspy, self._why_not = _find_pyspy(self._proc)

    def run(self, processes: tuple[ProcessOfInstance, ...]) -> Outcome:
        answers = all_within(self._deadline, [partial(self._one, process) for process in processes])
        got: list[_Got] = []
        for process, answer in zip(processes, answers, strict=True):
            if isinstance(answer, (SinkClosed, SinkFull)):
                raise answer
            got.append(answer if isinstance(answer, _Got) else _Got(process, why=f"{answer}"))
        return self._outcome(got)

    def _one(self, process: ProcessOfInstance) -> _Got:
        if process.uid != os.geteuid() and os.geteuid() != 0:
            return _Got(process, why=f"it belongs to user {process.uid} (run as that user or as root)", denied=True)
        if state_of(self._proc, process) is None:
            return _Got(process, why="it has ended")
        ran = self._ask(process)
        why = self._why_not if ran is None else ("" if _has_stacks(ran) else _complaint(ran))
        if ran is not None and _has_stacks(ran):
            self._put(process, plain(ran.output, process))
            return _Got(process, "py-spy")
        denied = ran is not None and _DENIED.search(ran.errors) is not None
        text = kernel_text(self._proc, process, why)
        if text is None:
            return _Got(process, why=why, denied=denied)
        self._put(process, text)
        return _Got(process, "kernel", why, denied)

    def _ask(self, process: ProcessOfInstance) -> Ran | None:
        if self._pyspy is None or not self._slots.acquire(timeout=self._deadline.remaining()):
            return None
        try:
            command = [self._pyspy, "dump", "--nonblocking", "--pid", str(process.pid)]
            limit = self._deadline.before(RESERVE_SECONDS).within(PROCESS_SECONDS)
            ran = run(command, limit, max_bytes=MAX_STACK_BYTES)
            for _ in range(ATTEMPTS - 1):
                if _has_stacks(ran) or limit.passed or _DENIED.search(ran.errors):
                    break
                ran = run(command, limit, max_bytes=MAX_STACK_BYTES)
            return ran
        finally:
            self._slots.release()

    def _put(self, process: ProcessOfInstance, text: bytes) -> None:
        rank = f"-rank_{process.rank}" if process.rank is not None else ""
        host = self._scene.target.host if self._scene.target is not None else None
        path = f"logs/stacks-{process.inner_pid}{rank}.txt"
        self._sink.put(path, text, look_time=self._scene.now(), rank=process.rank, host=host, text=True)

    def _outcome(self, got: list[_Got]) -> Outcome:
        spied = sum(item.how == "py-spy" for item in got)
        kernel = sum(item.how == "kernel" for item in got)
        parts = [f"Python stacks of {spied} of {len(got)} process(es) taken with py-spy"]
        if kernel:
            parts.append(f"the kernel's view of {kernel} instead")
        reasons: dict[str, list[int]] = {}
        for item in got:
            if item.why:
                reasons.setdefault(item.why, []).append(item.process.inner_pid)
        parts += [f"{_pids(pids)}: {why}" for why, pids in reasons.items()]
        note = "; ".join(parts)
        if spied == len(got):
            return Outcome(Ending.DONE, note)
        if spied or kernel:
            return Outcome(Ending.PARTIAL, note)
        if any(item.denied for item in got):
            return Outcome(Ending.DENIED, note)
        return Outcome(Ending.NOTHING if all(item.why == "it has ended" for item in got) else Ending.FAILED, note)


def plain(output: bytes, process: ProcessOfInstance) -> bytes:
    """py-spy's output under the process's own number, without its command line: that may run over several lines and
    hold a key. The rest of a bundle (NCCL, RAS, torch) knows a process by the number that it has inside."""
    starts = [found.start() for found in _HEADER_END.finditer(output)]  # a command line may hold one that is none
    body = output[starts[-1] :] if starts else b""
    name = "".join(letter if letter.isprintable() else "?" for letter in process.name)
    return f"Process {process.inner_pid}: {name}\n".encode() + body


def _looked_at(target: Target | None) -> tuple[ProcessOfInstance, ...]:
    if target is None:
        return ()
    engines = (item for item in target.processes if item.role is Role.ENGINE and item not in target.workers)
    return (*target.workers, *engines)


def _find_pyspy(proc: Path) -> tuple[str | None, str]:
    """The program, or why it cannot be used."""
    if proc != Path("/proc"):
        return None, f"the processes are seen through {proc}, and py-spy knows those of /proc only"
    if Proc(proc).own_pid() != os.getpid():  # it reads memory by number, which would be another process's
        return None, f"{proc} shows the processes of another pid namespace than this one, where py-spy would look"
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if os.access(beside, os.X_OK) else find_program("py-spy")
    return found, "" if found else "py-spy is not installed (pip install py-spy, beside this program)"


def _has_stacks(ran: Ran) -> bool:
    return ran.code == 0 and b"Thread " in ran.output


def _complaint(ran: Ran) -> str:
    if _DENIED.search(ran.errors):
        return f"py-spy has no permission{_tracing()} (run as root or with CAP_SYS_PTRACE)"
    first = next((line for line in ran.errors.splitlines() if line.strip()), "")
    if ran.code is not None and first:
        return f"py-spy said: {first.strip()[:200]}"
    return f"py-spy {ran.story}"


def _tracing() -> str:
    """Yama's setting, which forbids one process to read another's memory even where both are of one user."""
    try:
        scope = Path("/proc/sys/kernel/yama/ptrace_scope").read_text().strip()[:4]
    except OSError:
        return ""
    return f", kernel.yama.ptrace_scope is {scope}"


def _pids(pids: list[int]) -> str:
    return f"process {pids[0]}" if len(pids) == 1 else "processes " + ", ".join(str(pid) for pid in sorted(pids))
