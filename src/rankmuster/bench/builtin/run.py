"""The parent of the built-in benchmark on one node: starts the ranks, watches the GPUs, and says how it ended."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from rankmuster.bench.builtin.conclude import Ended, Run, conclude
from rankmuster.bench.builtin.environment import stripped
from rankmuster.bench.builtin.heard import Heard
from rankmuster.bench.builtin.layout import ELEMENT_BYTES
from rankmuster.bench.builtin.logs import telling
from rankmuster.bench.builtin.orders import Backend, Orders
from rankmuster.bench.builtin.processes import LocalRanks
from rankmuster.bench.contention import Contention, ContentionWatch
from rankmuster.collect.deadline import Deadline
from rankmuster.evidence.nccl_tests_environment import kept
from rankmuster.model.benchmark import BenchmarkRun, Profile

TICK = 0.25
"""Seconds between two looks at processes and GPUs while ranks have nothing to say."""

GRACE = 5.0
"""Seconds that ranks have to end after one of them failed: the others say where they stood, then they are killed."""

MARGIN = 10.0
"""Seconds beyond the time limit after which a rank ends itself, if nobody is left to end it."""

KILLED = (-signal.SIGKILL, -signal.SIGSEGV, -signal.SIGBUS)
"""Ends that are no after-effect of another rank's: SIGABRT and SIGTERM are."""

CHOICES_SECONDS = 120.0
"""The most that the start for NCCL's choices may take: importing torch and connecting takes 5 to 20 s, the calls less
than a second. What it does not say in time is missing, and the measurement is not the worse for it."""


def run_builtin(
    profile: Profile,
    *,
    gpus: int | None = None,
    environment: Mapping[str, str],
    time_limit_s: float,
    python: str | None = None,
    backend: Backend = Backend.NCCL,
    keep: Path | None = None,
    choices: bool = True,
    now: Callable[[], float] = time.time,
    here: Mapping[str, str] | None = None,
) -> BenchmarkRun:
    """Measures `profile` with one rank per GPU of this node; never raises for what ranks do, that is the run's state.

    `gpus`: ranks; None: as the profile says, or all GPUs that CUDA shows. `environment`: variables for the ranks
    besides the few that any program needs, which are taken from `here` (None: this process's). `time_limit_s`: of
    everything; then every rank is killed and the run HUNG. `python`: an interpreter that has torch; None: this one.
    `keep`: a folder for NCCL's logs, its dumps of topology and graphs and the ranks' output, made where missing.
    `choices`: whether ranks are started a second time, briefly, to log what NCCL chooses.

    Raises ValueError for a profile that cannot be run at all (fewer than two ranks, an unknown dtype), and
    OSError where no process or folder can be made.
    """
    base = os.environ if here is None else here
    ranks = _ranks(profile, gpus, {**base, **environment})
    _possible(profile, ranks)
    deadline = Deadline.after(time_limit_s)
    with tempfile.TemporaryDirectory(prefix="rankmuster-bench-", ignore_cleanup_errors=True) as made:
        folder = keep if keep is not None else Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        own = stripped(base, environment)
        if backend is Backend.GLOO:
            own.setdefault("GLOO_SOCKET_IFNAME", "lo")  # one node; and its name need not resolve
        job = _Job(ranks, python, own, Path(made), folder.absolute())
        orders = Orders(profile, seconds=time_limit_s + MARGIN, backend=backend, logs=str(folder.absolute()))
        watch = None if backend is Backend.GLOO else ContentionWatch()
        started_at = now()
        try:
            heard, ended, command = job.play(orders, deadline, time_limit_s, watch)
            contention = watch.finish(_identities(heard)) if watch is not None else Contention()
        finally:
            if watch is not None:
                watch.close()
        chosen = None
        if choices and ended.limit_s is None and not ended.dead and _with_nccl(heard):
            within = deadline.within(CHOICES_SECONDS)
            chosen, _, _ = job.play(replace(orders, choices=True), within, time_limit_s, None)
    run = Run(
        source=f"the built-in benchmark of {profile.name} on {ranks} GPUs",
        ranks=ranks,
        started_at=started_at,
        environment=kept(own.items()),
        command=command,
    )
    return conclude(heard, ended, run, chosen=chosen, contention=contention.reason, contended=contention.found)


class _Job:
    """Starts of the same ranks. `made`: a folder of their own for stores; `folder`: for what they write."""

    def __init__(self, ranks: int, python: str | None, environment: dict[str, str], made: Path, folder: Path) -> None:
        self._ranks, self._python, self._environment = ranks, python, environment
        self._made, self._folder = made, folder
        self._starts = 0

    def play(
        self, orders: Orders, deadline: Deadline, limit_s: float, watch: ContentionWatch | None
    ) -> tuple[Heard, Ended, tuple[str, ...]]:
        self._starts += 1
        heard = Heard()
        told = replace(orders, store=str(self._made / f"store_{self._starts}"))
        if watch is not None:
            watch.begin()
        with LocalRanks(
            told, self._ranks, python=self._python, environment=self._environment, folder=self._folder
        ) as ranks:
            if watch is not None:
                watch.own(ranks.pids)
            until = deadline
            while not ranks.over and not until.passed:
                heard.take(ranks.heard(until.within(TICK)))
                if watch is not None:
                    watch.poll()
                if until is deadline and any(code for code in ranks.ended().values()):
                    until = deadline.within(GRACE)
            stopped = {} if ranks.over else ranks.stopped()
            hung = not ranks.over and deadline.passed
            for rank in heard.ranks.values():
                if not rank.lines and rank.pid is not None:  # one that could not bring them along
                    rank.lines = telling(str(self._folder), rank.pid)
            codes = {number: code for number, code in ranks.ended().items() if code}
            dead = {number: _how(code, ranks.last_words(number)) for number, code in codes.items()}
            killed = frozenset(number for number, code in codes.items() if code in KILLED)
            return heard, Ended(limit_s if hung else None, dead, stopped, killed=killed), ranks.command


def _how(code: int, words: str) -> str:
    how = f"was killed by signal {-code}" if code < 0 else f"ended with status {code}"
    return f"{how} ({words})" if words else how


def _possible(profile: Profile, ranks: int) -> None:
    if ranks < 2:
        raise ValueError(f"a benchmark of communication needs two ranks; {ranks} would be started")
    unknown = {step.dtype for step in profile.steps} - set(ELEMENT_BYTES)
    if unknown:
        raise ValueError(f"dtype {sorted(unknown)[0]!r} is not one of {', '.join(ELEMENT_BYTES)}")


def _ranks(profile: Profile, gpus: int | None, environment: Mapping[str, str]) -> int:
    """Raises ValueError where the number is neither given nor to be seen."""
    if gpus is not None:
        return gpus
    if profile.ranks is not None:
        return profile.ranks
    shown = environment.get("CUDA_VISIBLE_DEVICES")
    if shown is not None:
        return len([name for name in shown.split(",") if name.strip() and name.strip() != "-1"])
    found = len(list(Path("/dev").glob("nvidia[0-9]*")))
    if not found:
        raise ValueError(
            "no GPU is to be seen here (no /dev/nvidia0): start it where the GPUs are, in the container that has them; "
            "where they are only not seen, give their number with --gpus"
        )
    return found


def _identities(heard: Heard) -> tuple[str, ...]:
    """UUIDs, or bus ids, of the GPUs that ranks used."""
    names = [rank.device.get("uuid") or rank.device.get("bus_id") for rank in heard.ranks.values()]
    return tuple(str(name) for name in names if name)


def _with_nccl(heard: Heard) -> bool:
    return any("nccl" in str(rank.device.get("backend")) for rank in heard.ranks.values())
