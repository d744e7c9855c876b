"""A runner for each instance that needs one, made when it is asked for: from the policy and the pods of that moment.

An incident that runs keeps the runner that it began with; one that is taken up after a restart gets one of now.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from rankmuster.incident.runner import Refused, Runner
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.policy_config import PolicyRefused

MOST_KEPT = 2_000


class Runners(Mapping[str, Runner]):
    """`make`: of an instance. `orphan`: of one that no policy governs, which can only close what is open."""

    def __init__(self, fleet: Fleet, make: Callable[[Known], Runner], orphan: Callable[[str], Runner]) -> None:
        self._fleet, self._make, self._orphan = fleet, make, orphan
        self._lock = threading.Lock()
        self._made: dict[str, tuple[Any, Runner]] = {}
        self._orphans: dict[str, Runner] = {}
        self._all: weakref.WeakSet[Runner] = weakref.WeakSet()

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and (self._fleet.governed(name) is not None or name in self._orphans)

    def __getitem__(self, name: str) -> Runner:
        known = self._fleet.governed(name)
        with self._lock:
            if known is None:
                if name in self._orphans:
                    return self._orphans[name]
                raise KeyError(name)
            self._orphans.pop(name, None)
            made = self._made.get(name)
            key = (known.policy.uid, known.policy.generation, known.view.workload_uid)
            if made is not None and made[0] == key:
                return made[1]
        try:
            runner = self._make(known)
        except PolicyRefused as error:
            raise Refused(f"its policy {known.policy.name} cannot be used: {error}") from error
        with self._lock:
            if len(self._made) >= MOST_KEPT:
                self._made.pop(next(iter(self._made)))
            self._made[name] = (key, runner)
            self._all.add(runner)
        return runner

    def adopt(self, name: str) -> None:
        """What is open of this instance is to be closed, though no policy governs it."""
        with self._lock:
            if name not in self._orphans:
                self._orphans[name] = self._orphan(name)

    def __iter__(self) -> Iterator[str]:
        return iter([one.name for one in self._fleet.instances()])

    def __len__(self) -> int:
        return len(self._fleet.instances())

    def values(self) -> Any:
        """Those that were made and may still work, those of an earlier policy too: what is to be stopped at the end."""
        with self._lock:
            return [*self._all, *self._orphans.values()]
