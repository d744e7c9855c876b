"""Keeps the instances of this node up to date for months at next to no cost.

Each look lists /proc once and reads `stat` of the known instances' ranks and servers. The full search of `collect`
takes hundredths to tenths of a second of processor time, and reads memory maps, so it is made only at first, while an
instance is missing, when a process has come that may be a new one's, and rarely otherwise (`finding_pace`). It runs in
a thread: one that waits for a stuck process's memory map holds no look up, and its result is taken by a later one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.search import Found, Request
from rankmuster.collect.machine import Machine
from rankmuster.collect.node.nvml_session import Listed, listed
from rankmuster.collect.proc import Proc
from rankmuster.collect.target import Target
from rankmuster.watch.finding_arrivals import may_be_instance, state_of
from rankmuster.watch.finding_kept import Kept
from rankmuster.watch.finding_known import Known, shape, with_gpus, without_ours
from rankmuster.watch.finding_pace import SHARE, SearchPace
from rankmuster.watch.finding_search import MAX_LEFT_BEHIND, NodeSearch, Search, left_behind

KEEP_SECONDS = 600.0
"""How long an instance that ended is kept in sight: as long as a restart may take (`WatchSettings.start_seconds`)."""

YOUNG_SECONDS = 1200.0
"""Age of a rank below which more may become known of its instance: a program that loads for minutes listens late."""

MOST_NAMED = 16
"""Names in one note: a node with more instances has a list of its own."""


@dataclass(frozen=True, slots=True)
class Changes:
    """What is new at one look. `current`: every instance in sight, by name, those that ended lately among them.

    `appeared`: were not in sight. `changed`: another incarnation, a process that matters came or ended (all of them,
    too: `finding_known.over`), or more is known of it (GPUs, addresses). `ended`: names that are not in sight any more,
    a while after their last process. `notes`: what could not be looked at, of the newest search.
    """

    current: tuple[Target, ...] = ()
    appeared: tuple[Target, ...] = ()
    changed: tuple[Target, ...] = ()
    ended: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def any(self) -> bool:
        """Whether anything is new."""
        return bool(self.appeared or self.changed or self.ended)


class Finder:
    """The instances of this node, all or those named. `look` is called from one thread, once a period.

    `names`, `pids`: as in the configuration; a pid means the instance that it was in when it was seen first, for good.
    `find_seconds`: between two searches while an instance is missing; `share`: of one core, at most, for searches;
    `keep_seconds`: how long one that ended stays in sight. `unix_now`: unix seconds, `clock`: seconds that
    never jump. `ask_nvml`: asks NVML for its processes within so many seconds; None where it cannot say. `own_gpus`:
    GPUs of processes by their own numbers, where somebody outside of this pod has told.
    """

    def __init__(
        self,
        machine: Machine,
        names: tuple[str, ...] = (),
        pids: tuple[int, ...] = (),
        *,
        find_seconds: float = 15.0,
        keep_seconds: float = KEEP_SECONDS,
        share: float = SHARE,
        clock: Callable[[], float] = time.monotonic,
        unix_now: Callable[[], float] = time.time,
        ask_nvml: Callable[[float], Listed | None] = listed,
        own_gpus: Callable[[], Mapping[int, tuple[Gpu, ...]]] = dict,
    ) -> None:
        self._proc = Proc(machine.proc)
        self._names = frozenset(names)
        self._pids = pids
        self._keep = keep_seconds
        self._clock = clock
        self._unix_now = unix_now
        self._own_gpus = own_gpus
        self._gpus_seen: Mapping[int, tuple[Gpu, ...]] = {}
        self._node = NodeSearch(machine, ask_nvml, clock=clock, unix_now=unix_now)
        self._pace = SearchPace(find_seconds, share)
        self._kept = Kept(self._names, by_pid=bool(pids))
        self._seen: set[str] = set()  # names that were known at any time
        self._listed: frozenset[int] = frozenset()
        self._search: Search | None = None
        self._notes: tuple[str, ...] = ()
        self.searches = 0
        self.search_seconds = 0.0

    def look(self, deadline: Deadline) -> Changes:
        """What has changed since the last look. Waits for a search that is due, at most until `deadline`."""
        now = self._clock()
        before = dict(self._kept.known)
        pids = frozenset(self._proc.pids())
        if not pids:
            notes = (f"{self._proc.root} lists no process: whether the instances live cannot be seen",)
            return Changes(self._kept.targets, notes=notes)
        if self._kept.check(lambda process: state_of(self._proc, process, pids), now):
            self._pace.changed()
        if self._stirred(pids):
            self._pace.stirred()
        if self._own_gpus() != self._gpus_seen:
            self._pace.changed()
        self._listed = pids
        self._find(now, deadline)
        self._kept.forget(self._clock(), self._keep)
        return self._changes(before)

    @property
    def busy(self) -> bool:
        """Whether a search is under way still."""
        return self._search is not None

    def _changes(self, before: Mapping[str, Known]) -> Changes:
        appeared, changed = [], []
        for name, one in sorted(self._kept.known.items()):
            earlier = before.get(name)
            if earlier is None:
                appeared.append(one.target)
            elif shape(one.target) != shape(earlier.target):
                changed.append(one.target)
        ended = tuple(sorted(before.keys() - self._kept.known.keys()))
        return Changes(self._kept.targets, tuple(appeared), tuple(changed), ended, self._notes)

    def _stirred(self, pids: frozenset[int]) -> bool:
        """Whether a process has come since the last look that may be a new instance's."""
        new = pids - self._listed
        if not self._listed or not new:
            return False
        return may_be_instance(self._proc, new, {process.pid for process in self._kept.processes()})

    def _find(self, now: float, deadline: Deadline) -> None:
        if self._search is None:
            if not self._pace.due(now):
                return
            stuck = left_behind()
            if stuck > MAX_LEFT_BEHIND:
                self._notes = (f"not searched: {stuck} reads of processes that hang in a driver have not returned yet",)
                self._pace.searched(now, 0.0, settled=True)
                return
            request = self._request()
            self._search = Search(lambda: self._node.search(request))
            self._search.start()
        search = self._search
        if not search.done.wait(deadline.remaining()):
            return
        self._search = None
        now = self._clock()
        self.searches += 1
        self.search_seconds += search.cost
        if search.found is None:
            self._notes = (search.error,)
            self._pace.searched(now, search.cost, settled=False)
            return
        gpus = self._gpus_seen = dict(self._own_gpus())
        targets = (with_gpus(one, gpus) for one in map(without_ours, search.found.targets) if one is not None)
        found = replace(search.found, targets=tuple(targets))
        before = {name: shape(one.target) for name, one in self._kept.known.items()}
        self._kept.take(found, now)
        self._notes = (*found.notes, *self._missing(found))
        after = {name: shape(one.target) for name, one in self._kept.known.items()}
        missing = not self._kept.known or any(one.ended_at is not None for one in self._kept.known.values())
        missing = missing or not self._names <= self._kept.known.keys()
        settled = before == after and not missing
        self._pace.searched(now, search.cost, settled=settled, young=self._young())

    def _missing(self, found: Found) -> tuple[str, ...]:
        """Names of the configuration that nobody has had yet, with those that there are: one may be misspelt."""
        self._seen |= self._names & self._kept.known.keys()
        missing = sorted(self._names - self._seen)
        if not missing:
            return ()
        there = [target.name for target in found.targets]
        others = (
            f"; there is {', '.join(there[:MOST_NAMED])}{', ...' if len(there) > MOST_NAMED else ''}" if there else ""
        )
        return (f"no process of an instance called {', '.join(missing[:MOST_NAMED])} is seen here{others}",)

    def _young(self) -> bool:
        since = self._unix_now() - YOUNG_SECONDS
        return any(one.started_at > since for known in self._kept.known.values() for one in known.target.workers)

    def _request(self) -> Request:
        """A pid means its instance until it was seen once; from then on the instance is known by name."""
        return Request(self._pids) if self._pids and not self._kept.pids_seen else Request()
