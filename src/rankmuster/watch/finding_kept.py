"""The instances in sight, by name: what a search found is taken as one of them, seen later, or as a new one. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from rankmuster.collect.find.search import Found
from rankmuster.collect.target import ProcessOfInstance, Target
from rankmuster.watch.finding_known import GONE, Known, in_common, key, looked, merged, over, shape


class Kept:
    """`names`: those that are wanted, empty for all. `by_pid`: whether the configuration names pids.

    A pid means the instance that it was in when it was seen first, for good.
    """

    def __init__(self, names: frozenset[str], *, by_pid: bool) -> None:
        self._names = names
        self._by_pid = by_pid
        self._meant: set[str] = set()  # names that a pid of the configuration stood for
        self._known: dict[str, Known] = {}

    @property
    def known(self) -> Mapping[str, Known]:
        """Name -> what is known of it."""
        return self._known

    @property
    def targets(self) -> tuple[Target, ...]:
        """By name."""
        return tuple(self._known[name].target for name in sorted(self._known))

    @property
    def pids_seen(self) -> bool:
        """Whether an instance that a pid of the configuration means was seen: it is known by name from then on."""
        return bool(self._meant)

    def processes(self) -> Iterator[ProcessOfInstance]:
        """Of all of them."""
        return (process for one in self._known.values() for process in one.target.processes)

    def check(self, state_of: Callable[[ProcessOfInstance], tuple[str, int | None] | None], now: float) -> bool:
        """Takes the states of now (monotonic seconds); whether one of the instances has changed. `state_of`: as in
        `finding_known.looked`."""
        changed = False
        for name, one in self._known.items():
            if one.ended_at is not None and all(process.state == GONE for process in one.target.processes):
                continue
            target = looked(one.target, state_of)
            if target is not one.target:
                self._known[name] = _dated(target, one.ended_at, now)
                changed = changed or shape(target) != shape(one.target)
        return changed

    def forget(self, now: float, keep_seconds: float) -> None:
        """Those that ended `keep_seconds` before `now` (monotonic seconds), or earlier, are not in sight any more."""
        ended = [
            name for name, one in self._known.items() if one.ended_at is not None and now - one.ended_at >= keep_seconds
        ]
        for name in ended:
            del self._known[name]

    def take(self, found: Found, now: float) -> None:
        """Each of the known gets the target that has most in common with it; the others are new."""
        left = dict(enumerate(found.targets))
        pairs = sorted(
            (-shared, number, name)
            for number, target in left.items()
            for name, one in self._known.items()
            if (shared := in_common(one.target, target))
        )
        claimed: dict[str, int] = {}
        for _, number, name in pairs:
            if number in left and name not in claimed:
                claimed[name] = number
                del left[number]
        # What was taken for several before has turned out to be one.
        for _, _, name in pairs:
            if name not in claimed:
                self._known.pop(name, None)
        for name, number in claimed.items():
            self._keep_as(self._known.pop(name), found, number, now)
        for number in left:
            self._take_new(found, number, now)

    def _keep_as(self, known: Known, found: Found, number: int, now: float) -> None:
        others = {key(one) for n, target in enumerate(found.targets) if n != number for one in target.processes}
        target = merged(known.target, found.targets[number], others)
        if target.name in self._known:  # a better name that another has
            target = replace(target, name=known.target.name)
        self._known[target.name] = _dated(target, known.ended_at, now)
        if self._by_pid:
            self._meant.add(target.name)

    def _take_new(self, found: Found, number: int, now: float) -> None:
        target = found.targets[number]
        if over(target):
            return
        known = self._known.get(target.name)
        if known is not None and known.ended_at is None:
            oldest = min(target.processes, key=lambda process: process.start_ticks).pid
            target = replace(target, name=f"{target.name}-pid{oldest}")
            known = self._known.get(target.name)
        if known is not None:
            self._keep_as(self._known.pop(target.name), _replace_at(found, number, target), number, now)
        elif self._wanted(target):
            self._known[target.name] = Known(target)
            if self._by_pid:
                self._meant.add(target.name)

    def _wanted(self, target: Target) -> bool:
        if self._names and target.name not in self._names:
            return False
        return not self._meant or target.name in self._meant


def _dated(target: Target, ended_at: float | None, now: float) -> Known:
    return Known(target, (ended_at if ended_at is not None else now) if over(target) else None)


def _replace_at(found: Found, number: int, target: Target) -> Found:
    """The same with one target in another's place."""
    return replace(found, targets=(*found.targets[:number], target, *found.targets[number + 1 :]))
