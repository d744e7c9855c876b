"""Whether something else worked on the GPUs while a benchmark ran, as NVML lists processes and utilisation.

Before the first of the benchmark's processes starts and after the last has ended, every process on its GPUs is
another's; between, every one that is not its own. NVML gives host pids: in a container its own processes go by other
numbers, and then they can only be counted, one per rank and GPU. Where NVML shows no processes at all, as in some
sandboxes, what is left is the utilisation of a GPU before and after, and this is said.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.evidence.pci import bus_id

BUSY_PERCENT = 10.0
"""Utilisation of a GPU, of its time with any kernel on it, from which on it works. An idle one has 0; monitoring that
runs kernels of its own (DCGM's profiling does not) has single percents."""

INTERVAL = 0.5  # seconds between two samples of a GPU; NVML's utilisation is over the last 1/6 to 1 s
FIRST_SECONDS = 6.0
"""The most that is waited for the first sample of all GPUs, and for them to be idle: NVML takes 1 to 3 s to start on a
node of eight, and what ended a second ago (an earlier run) is still in its figures."""

QUIET_SECONDS = 1.5
"""From the last own process's end to the last look: then utilisation no longer holds the benchmark's own work."""

LASTING_SECONDS = 4.0
"""The most that is waited for own processes to vanish from NVML's list, and their work from its utilisation."""


@dataclass(frozen=True, slots=True)
class Contention:
    """`foreign`: (NVML index of the GPU, host pid) of others' processes; `busy`: (index, percent) of GPUs that worked
    while no rank did. `unknown`: what cannot be told and why, empty where all can."""

    foreign: tuple[tuple[int, int], ...] = ()
    busy: tuple[tuple[int, float], ...] = ()
    unknown: str = ""

    @property
    def found(self) -> bool:
        """Whether there was foreign work."""
        return bool(self.foreign or self.busy)

    @property
    def reason(self) -> str:
        """In words; empty where nothing was found and nothing is unknown."""
        parts = []
        for gpu in sorted({gpu for gpu, _ in self.foreign}):
            pids = [str(pid) for index, pid in self.foreign if index == gpu]
            parts.append(f"GPU {gpu} also has {'process' if len(pids) == 1 else 'processes'} {', '.join(pids)}")
        parts += [f"GPU {gpu} was {percent:.0f} % busy while the benchmark did not run" for gpu, percent in self.busy]
        if parts:
            parts[0] = f"foreign work: {parts[0]}"
        return "; ".join([*parts, self.unknown] if self.unknown else parts)


@dataclass
class Seen:
    """One GPU. `before`, `after`: pids when no own process was there, as seen last; `during`: each sample's. None: none
    was taken. `load_before`, `load_after`: utilisation in percent, as seen last."""

    identity: frozenset[str] = frozenset()  # UUID and bus id, normalised
    before: set[int] | None = None
    during: list[set[int]] = field(default_factory=list)
    after: set[int] | None = None
    load_before: float = 0.0
    load_after: float = 0.0

    @property
    def busy(self) -> float:
        """The higher of both looks, outside the run itself."""
        return max(self.load_before, self.load_after)


def judge(seen: Mapping[int, Seen], own: Collection[int], used: Sequence[str] | None) -> Contention:
    """Pure. `own`: the benchmark's pids as this program knows them; `used`: UUIDs or bus ids, None for all GPUs.

    The benchmark has one process per GPU that it uses.
    """
    wanted = None if used is None else {normal(name) for name in used}
    gpus = {index: gpu for index, gpu in seen.items() if wanted is None or gpu.identity & wanted}
    if not gpus:
        return Contention(unknown="whether anything else used the GPUs is unknown: NVML does not list them")
    ours = set(own)
    same_numbers = any(ours & pids for gpu in gpus.values() for pids in gpu.during)
    foreign: set[tuple[int, int]] = set()
    seen_any = False
    for index, gpu in gpus.items():
        lasting = (gpu.after or set()) - (set() if same_numbers else _likely_own(gpu))
        others = ((gpu.before or set()) | lasting) - ours
        seen_any = seen_any or any(gpu.during)
        for pids in gpu.during:
            new = pids - others - ours
            # In a container, one unknown process on a GPU is the rank itself.
            if same_numbers or len(new) > 1:
                foreign |= {(index, pid) for pid in new}
        foreign |= {(index, pid) for pid in others}
    having = {index for index, _ in foreign}
    busy = tuple(
        (index, gpu.busy) for index, gpu in sorted(gpus.items()) if gpu.busy >= BUSY_PERCENT and index not in having
    )
    unknown = ""
    if not seen_any:
        unknown = "NVML shows no processes here, not the benchmark's own either: foreign ones would not be seen"
    elif not same_numbers and foreign:
        unknown = "the pids are the host's; of those seen only while the benchmark ran one per GPU is its own"
    return Contention(tuple(sorted(foreign)), busy, unknown)


def _likely_own(gpu: Seen) -> set[int]:
    """The one process that came with the benchmark, by another number: it may be a moment in going."""
    came = [pids - (gpu.before or set()) for pids in gpu.during]
    found = set().union(*came)
    return found if len(found) == 1 else set()


def normal(identity: str) -> str:
    """UUIDs as they are, bus ids as `dddd:bb:dd`: NVML writes eight digits of domain and a function, CUDA four."""
    return bus_id(identity) or identity.strip().lower()


class _Phase(Enum):
    BEFORE = auto()
    DURING = auto()
    AFTER = auto()


class ContentionWatch:
    """Around any benchmark: `begin` before its processes start, `own` and `poll` while they run, `finish` after their
    end. Never raises; what NVML does not say is unknown. `session`: of NVML, to be listened to; tests bring their own.
    """

    def __init__(
        self,
        *,
        session: Callable[[], NvmlSession] = lambda: NvmlSession(seconds=86_400.0, interval=INTERVAL),
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._open, self._clock, self._sleep = session, clock, sleep
        self._session: NvmlSession | None = None
        self._seen: dict[int, Seen] = {}
        self._own: set[int] = set()
        self._count: int | None = None
        self._unusable = ""
        self._phase = _Phase.BEFORE
        self._fresh: set[int] = set()  # GPUs sampled in this phase

    def begin(self) -> None:
        """Looks at the GPUs before anything of the benchmark is there; takes up to `FIRST_SECONDS`."""
        try:
            self._session = self._open()
        except OSError as error:
            self._unusable = f"NVML could not be asked ({error.strerror or error})"
            return
        deadline = Deadline.after(FIRST_SECONDS, self._clock)
        while not deadline.passed and not self._unusable and not self._session.ended:
            self._listen(deadline)
            quiet = not any(gpu.before or gpu.load_before >= BUSY_PERCENT for gpu in self._seen.values())
            if self._count is not None and len(self._fresh) >= self._count and quiet:
                break
        self._enter(_Phase.DURING)

    def own(self, pids: Sequence[int]) -> None:
        """Tells the processes of the benchmark itself, which are not foreign."""
        self._own |= set(pids)

    def poll(self) -> None:
        """Takes what has been sampled since; to be called now and then while the benchmark runs."""
        if self._session is not None:
            self._listen(Deadline.after(0.0, self._clock))

    def finish(self, used: Sequence[str] | None = None) -> Contention:
        """Looks once more, after the benchmark's processes have ended, and concludes. `used`: see `judge`."""
        if self._session is None or self._unusable:
            self.close()
            why = self._unusable or "NVML was not asked"
            return Contention(unknown=f"whether anything else used the GPUs is unknown: {why}")
        self.poll()
        self._sleep(QUIET_SECONDS)
        self.poll()
        self._enter(_Phase.AFTER)
        deadline = Deadline.after(LASTING_SECONDS, self._clock)
        while not deadline.passed and not self._session.ended:
            self._listen(deadline)
            lasting = any(gpu.after or gpu.load_after >= BUSY_PERCENT for gpu in self._seen.values())
            if len(self._fresh) >= (self._count or 0) and not lasting:
                break
        self.close()
        return judge(self._seen, self._own, used)

    def close(self) -> None:
        """Ends the asking; `finish` does."""
        if self._session is not None:
            self._session.close()
            self._session = None

    def _enter(self, phase: _Phase) -> None:
        self._phase = phase
        self._fresh = set()

    def _listen(self, deadline: Deadline) -> None:
        assert self._session is not None
        for line in self._session.lines(deadline):
            self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        kind = line.get("kind")
        if kind == "unusable":
            self._unusable = str(line.get("reason"))
        elif kind == "driver":
            self._count = int(line.get("count") or 0)
        elif kind == "gpu" and line.get("uuid"):
            names = (line.get("uuid"), line.get("bus_id"))
            self._of(line).identity = frozenset(normal(str(name)) for name in names if name)
        elif kind == "gpu" and line.get("error"):
            self._fresh.add(int(line["gpu"]))  # it will not be sampled
        elif kind == "sample":
            self._sample(self._of(line), line)
            self._fresh.add(int(line["gpu"]))

    def _of(self, line: Mapping[str, Any]) -> Seen:
        return self._seen.setdefault(int(line["gpu"]), Seen())

    def _sample(self, gpu: Seen, line: Mapping[str, Any]) -> None:
        listed, load = line.get("pids"), line.get("sm_util_percent")
        pids = {int(pid) for pid in listed} if isinstance(listed, list) else set()
        percent = float(load) if isinstance(load, (int, float)) else 0.0
        # The newest counts before and after: what ended a moment ago leaves the figures a moment later.
        if self._phase is _Phase.BEFORE:
            gpu.before, gpu.load_before = pids, percent
        elif self._phase is _Phase.AFTER:
            gpu.after, gpu.load_after = pids, percent
        else:
            gpu.during.append(pids)
