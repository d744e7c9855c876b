"""Snapshots into the registry: what each look says, and what has changed since the one before."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

from rankmuster.metrics.declared import INSTANCE
from rankmuster.metrics.registry import Registry
from rankmuster.model.fault import Progress
from rankmuster.model.node import TaskState
from rankmuster.watch.export import metrics as m
from rankmuster.watch.progress.model import Event
from rankmuster.watch.snapshot import InstanceView, Snapshot, WatcherView

KEEP_SECONDS = 900.0
"""How long the counters of an instance that has gone stay: Prometheus scrapes at least once in some minutes, and alert
rules look back a quarter of an hour."""

MOST_PERIODS = 3.0
"""Longest time between two looks that counts as spent in a state, in periods: a watch that slept has seen nothing."""

STUCK = frozenset(
    state.value
    for state in (
        TaskState.STOPPED,
        TaskState.TRACED,
        TaskState.UNINTERRUPTIBLE,
        TaskState.ZOMBIE,
        TaskState.DEAD,
        TaskState.GONE,
    )
)
"""States in which a process answers nobody. Once is ordinary: profilers trace, drivers are waited for."""

_URGENCY = (
    Progress.IDLE,
    Progress.ADVANCING,
    Progress.DRAINING,
    Progress.STARTING,
    Progress.UNKNOWN,
    Progress.SLOW,
    Progress.STOPPED,
)
"""The last is the one that matters most."""


@dataclass(slots=True)
class _Seen:
    """Of one instance at the look before. `ended`: all of its processes have. `gone_at`: unix seconds from which it was
    in no snapshot."""

    time: float
    state: str
    stops: int
    looks: int
    stuck: frozenset[int] = frozenset()
    ended: bool = False
    gone_at: float | None = None


class LookMetrics:
    """Not for several threads at once; scrapes see a look whole."""

    def __init__(self, registry: Registry) -> None:
        registry.register(*m.OF_LOOKS, *m.OF_INSTANCES, *m.OF_THE_WATCH)
        self._registry = registry
        self._seen: dict[str, _Seen] = {}
        self._last: float | None = None

    def take(self, snapshot: Snapshot) -> None:
        """One snapshot; one that was taken before changes nothing."""
        if snapshot.time == self._last:
            return
        self._last = snapshot.time
        with self._registry.together():
            self._watch(snapshot, snapshot.watcher)
            for metric in m.OF_LOOKS:
                self._registry.gauge(metric).clear()
            # Of instances above the bound, which share one label, the one that most needs somebody is shown.
            for view in sorted(snapshot.instances, key=lambda one: _URGENCY.index(one.state)):
                self._instance(snapshot, view)
            self._gone(snapshot)

    def _watch(self, snapshot: Snapshot, watcher: WatcherView) -> None:
        gauge = self._registry.gauge
        gauge(m.BUILD).set(1.0, version=watcher.version)
        gauge(m.STARTED).set(watcher.started_at)
        gauge(m.PERIOD).set(watcher.period)
        gauge(m.LAST_LOOK).set(snapshot.time)
        gauge(m.INSTANCES).set(float(len(snapshot.instances)))
        gauge(m.WATCH_MEMORY).set(float(watcher.rss_bytes))
        self._registry.counter(m.WATCH_CPU).follow(watcher.cpu_seconds)

    def _instance(self, snapshot: Snapshot, view: InstanceView) -> None:
        seen = self._seen.get(view.name)
        self._count(snapshot, view, seen)
        stuck = frozenset(rank.pid for rank in view.ranks if rank.state in STUCK)
        self._show(view, len(stuck & seen.stuck) if seen is not None else 0)
        ended = _ended(view, before=seen is not None and seen.gone_at is None and seen.ended)
        self._registry.gauge(m.ENDED).set(float(ended), **{INSTANCE.name: view.name})
        self._seen[view.name] = _Seen(snapshot.time, view.state.value, view.stops, view.looks, stuck, ended)

    def _count(self, snapshot: Snapshot, view: InstanceView, seen: _Seen | None) -> None:
        counter = self._registry.counter
        name = {INSTANCE.name: view.name}
        if seen is None:
            # A counter that is first seen at 1 has not risen, for Prometheus.
            for event in m.EVENTS:
                counter(m.EVENTS_SEEN).add(0, event=event, **name)
        if view.event is not None:
            counter(m.EVENTS_SEEN).add(1, event=view.event.replace(" ", "_"), **name)
        stops = view.stops - (seen.stops if seen is not None and view.stops >= seen.stops else 0)
        if stops > 0:
            counter(m.STOPS).add(stops, **_fault(view), **name)
        looks = view.looks - seen.looks if seen is not None and view.looks > seen.looks else 1
        counter(m.LOOKS).add(looks, **name)
        counter(m.LOOK_CPU).add(_positive(view.look_seconds), **name)
        if seen is not None and seen.gone_at is None:
            spent = min(snapshot.time - seen.time, MOST_PERIODS * snapshot.watcher.period)
            counter(m.STATE_SECONDS).add(_positive(spent), state=seen.state, **name)

    def _show(self, view: InstanceView, stuck: int) -> None:
        gauge = self._registry.gauge
        name = {INSTANCE.name: view.name}
        gauge(m.STATE).choose("state", view.state.value, **name)
        gauge(m.STATE_SINCE).set(view.since, **name)
        if view.class_ is not None:
            gauge(m.FAULT).set(1.0, **_fault(view), **name)
        doing = Counter(rank.doing for rank in view.ranks if rank.doing is not None)
        if doing:
            for known in m.RANKS.labels[1].values:
                gauge(m.RANKS).set(float(doing.pop(known, 0)), doing=known, **name)
            if doing:
                gauge(m.RANKS).set(float(sum(doing.values())), doing="other", **name)
        if any(rank.state is not None for rank in view.ranks):
            gauge(m.UNRESPONSIVE).set(float(stuck), **name)
        for (kind, state), number in Counter((one.kind, one.state.value) for one in view.groups).items():
            gauge(m.GROUPS).set(float(number), kind=kind, state=state, **name)
        gauge(m.TOKENS).set(_known(view.tokens_per_s), **name)
        gauge(m.RUNNING).set(_known(view.running), **name)
        gauge(m.WAITING).set(_known(view.waiting), **name)
        gauge(m.SPEED_KIND).choose("kind", view.speed_kind, **name)
        now, usual = _known(view.speed_now), _known(view.speed_usual)
        gauge(m.SPEED_NOW).set(now, **name)
        gauge(m.SPEED_USUAL).set(usual, **name)
        gauge(m.SPEED_RATIO).set(now / usual if now is not None and usual else None, **name)
        for plane in view.planes:
            gauge(m.PLANE_STATE).choose("state", plane.state.value, plane=plane.plane.value, **name)
            gauge(m.PLANE_AGE).set(_known(plane.age), plane=plane.plane.value, **name)
        gauge(m.LAST_STOP).set(view.last_stop.at if view.last_stop is not None else 0.0, **name)

    def _gone(self, snapshot: Snapshot) -> None:
        """Of instances that are in no snapshot any more all goes: gauges at once, counts when they have been read."""
        here = {view.name for view in snapshot.instances}
        for name, seen in list(self._seen.items()):
            if name in here:
                continue
            if seen.gone_at is None:
                seen.gone_at = snapshot.time
                self._registry.forget(INSTANCE.name, name)
            elif not 0 <= snapshot.time - seen.gone_at < KEEP_SECONDS:
                self._registry.forget(INSTANCE.name, name, counts=True)
                del self._seen[name]


def _ended(view: InstanceView, before: bool) -> bool:
    """It has with the event that says so, until something else is seen of it."""
    if view.event == Event.GONE.value:
        return True
    return before and view.state is Progress.UNKNOWN and view.event is None


def _fault(view: InstanceView) -> dict[str, object]:
    return fault_labels(view.class_, view.subclass)


def fault_labels(class_: object, subclass: object) -> dict[str, object]:
    """The labels `class` and `subclass`; a stop without a class is one that nothing decided."""
    return {"class": class_ or "inconclusive", "subclass": subclass or m.NONE}


def _known(value: float | None) -> float | None:
    """None for what is no finite number: pages of strangers hold anything."""
    return value if value is not None and math.isfinite(value) else None


def _positive(value: float) -> float:
    return value if math.isfinite(value) and value > 0 else 0.0
