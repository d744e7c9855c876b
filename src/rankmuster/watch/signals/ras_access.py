"""The way to one instance's RAS, shared by the polls and the events: its NCCL's release, its address, its permission.

What takes time is found out once: the release when the ranks change (it is read from their memory maps, which a frozen
process can hold for ever, so in a thread that can be left behind), the address with it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.collector import Assessment, Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.ras import locate
from rankmuster.collect.ras.address import AddressUnusable
from rankmuster.collect.ras.client import Service
from rankmuster.collect.ras.probe import Abilities
from rankmuster.collect.ras.release import Span
from rankmuster.collect.ras.version import NcclVersion, read_version
from rankmuster.collect.target import Target
from rankmuster.collect.wishes import RasRisk, Wishes
from rankmuster.model.fault import Phase, Progress
from rankmuster.watch.finding_known import alive
from rankmuster.watch.signals.ras_policy import Permission, narrowed, permission, standing

VERSION_SECONDS = 5.0
"""For reading which NCCL is mapped: a second with a cold disk (`collect` gives it as long)."""

VERSION_AGAIN_SECONDS = 600.0
"""Between two readings where the first found nothing: memory maps of megabytes are not read every minute."""

VERSION_PROCESSES = 2
"""Ranks whose maps are read: those of one instance run one installation, and eight maps are 40 MB of text."""


class Barred(Exception):
    """RAS is not to be asked; the text says why, one sentence."""


@dataclass(frozen=True, slots=True)
class Way:
    """Where to ask. `pids`: the instance's as they see themselves, empty where its ranks are not known. `factor`: its
    NCCL_RAS_TIMEOUT_FACTOR. `candidates`: releases that it may be, empty: unknown."""

    place: locate.Place
    pids: tuple[int, ...]
    factor: float
    candidates: tuple[Span, ...]


class RasAccess:
    """One instance's. Usable from several threads. `now`: unix seconds, `clock`: seconds that never jump."""

    def __init__(
        self,
        target: Target,
        machine: Machine,
        risk: RasRisk,
        *,
        now: Callable[[], float] = time.time,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.now = now
        self.clock = clock
        self._machine = machine
        self._risk = risk
        self._target = target
        self._assessment: Assessment | None = None
        self._held = False
        self._lock = threading.Lock()
        self._known: tuple[Hashable, NcclVersion, locate.Place] | None = None
        self._read_at = float("-inf")

    @property
    def host(self) -> str:
        """The node."""
        return self._target.host

    @property
    def target(self) -> Target:
        """The newest."""
        return self._target

    @property
    def incarnation(self) -> Hashable:
        """What a connection belongs to."""
        target = self._target
        ranks = frozenset((process.pid, process.start_ticks) for process in target.workers)
        return target.name, target.incarnation, target.incarnation is not None or ranks

    @property
    def told(self) -> bool:
        """Whether anything was told of this incarnation yet."""
        return self._assessment is not None

    @property
    def ready(self) -> bool:
        """Whether the instance is in a state in which RAS may be talked to."""
        return standing(self._assessment).granted

    @property
    def held(self) -> bool:
        """Whether somebody else asks at this moment."""
        return self._held

    def retarget(self, target: Target) -> None:
        """The instance as it is now: after a restart, or when a process has come or ended."""
        if target.incarnation != self._target.incarnation:
            self._assessment = None  # of the incarnation before: this one may be in its init
        self._target = target

    def tell(self, progress: Progress, phase: Phase | None = None, *, reason: str = "", held: bool = False) -> None:
        """The watch's newest judgement. `held`: `collect` is about to ask RAS: one client at a time."""
        stopped = progress is Progress.STOPPED
        healthy = progress in (Progress.ADVANCING, Progress.IDLE, Progress.SLOW)
        self._assessment = Assessment(progress, phase, stopped, healthy, reason or progress.value)
        self._held = held

    def way(self, deadline: Deadline) -> Way:
        """Where RAS is, when it may be asked as far as is known before a connection. Raises Barred.

        Waits for files in /proc, by the deadline.
        """
        target = self._target
        ready = standing(self._assessment)
        if not ready.granted:
            raise Barred(ready.reason)
        if locate.switched_off(target):
            value = target.setting("NCCL_RAS_ENABLE")
            raise Barred(f"RAS is switched off in the instance by NCCL_RAS_ENABLE={value}")
        version, place = self._look_up(target, deadline)
        if target.nccl_loaded is False and version.mapped is False:
            raise Barred("no process of the instance on this node has NCCL loaded, so there is no RAS to ask")
        if version.candidates:
            early = permission(version.candidates, self._risk, self._assessment)
            if not early.granted:
                raise Barred(early.reason)
        if not place.found:
            raise Barred(f"the host of {place.where} (NCCL_RAS_ADDR) has no address that can be found from here")
        pids = tuple({process.inner_pid for process in target.processes}) if target.workers else ()
        return Way(place, pids, locate.timeout_factor(target), version.candidates)

    def permits(self, way: Way, abilities: Abilities) -> Permission:
        """Whether the service that answered this very connection may be sent a STATUS: it may be another job's."""
        return permission(narrowed(way.candidates, abilities), self._risk, self._assessment)

    def service(self, way: Way) -> Service:
        """A new list of attempts there."""
        return way.place.service(self._scene(self._target))

    def _scene(self, target: Target) -> Scene:
        return Scene(target, self._machine, Wishes(ras_risk=self._risk), now=self.now, clock=self.clock)

    def _look_up(self, target: Target, deadline: Deadline) -> tuple[NcclVersion, locate.Place]:
        """Release and address, read anew when the ranks have changed."""
        living = tuple(process for process in target.workers or target.processes if alive(process))
        key = (frozenset((one.pid, one.start_ticks) for one in living), target.nccl_loaded)
        if not living:
            raise Barred("no process of the instance lives on this node, so there is no RAS to ask")
        if not self._lock.acquire(timeout=deadline.remaining()):
            raise Barred("which NCCL runs is being read still: its processes' memory maps take their time")
        try:
            those = replace(target, processes=living)
            if self._known is None or self._known[0] != key or not self._known[2].found:
                place = self._place(those, deadline)  # first, since it costs nothing and may end the matter
            else:
                place = self._known[2]
            version = self._known[1] if self._known is not None and self._known[0] == key else None
            again = self.clock() - self._read_at >= VERSION_AGAIN_SECONDS
            if version is None or (not version.candidates and again):
                self._read_at = self.clock()
                version = self._version(replace(those, processes=living[:VERSION_PROCESSES]), deadline)
            self._known = key, version, place
            return version, place
        finally:
            self._lock.release()

    def _version(self, target: Target, deadline: Deadline) -> NcclVersion:
        until = deadline.within(min(VERSION_SECONDS, deadline.remaining() / 2))
        try:
            return within(until.remaining(), lambda: read_version(target, self._machine, until), "ras-version")
        except Late as late:
            return NcclVersion(notes=(f"which NCCL is mapped could not be read ({late})",))

    def _place(self, target: Target, deadline: Deadline) -> locate.Place:
        try:
            return locate.locate(self._scene(target), target, deadline)
        except AddressUnusable as error:
            raise Barred(str(error)) from error
