"""Tables of objects, one a resource: what is read, how a change is stored and told, and the past that is kept.

`Store` is these, with the rules of writing. What `rows`, `row` and `follow` hand out is shared, and not to be changed.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from kube_sim.history import Change, History, Object, Place
from kube_sim.kinds import KindInfo
from kube_sim.problems import ApiProblem, no_such_path, not_found
from kube_sim.selectors import fields_fit, labels_fit
from kube_sim.values import copied

Listener = Callable[[str, Object], None]


class Tables:
    """`history`: changes that are kept."""

    def __init__(self, history: int) -> None:
        self._lock = threading.RLock()
        self._kinds: dict[str, KindInfo] = {}
        self._tables: dict[str, dict[tuple[str, str], Object]] = {}
        self._listeners: list[tuple[str | None, Callable[[Change], None]]] = []
        self._untold: deque[Change] = deque()
        self._telling = False
        self.history = History(history)
        self.resource_version = 1

    # what kinds there are

    def know(self, info: KindInfo) -> None:
        with self._lock:
            self._kinds[info.key] = info
            self._tables.setdefault(info.key, {})

    def forget(self, key: str) -> None:
        """The resource and all its objects are gone."""
        with self._change():
            if key not in self._tables:
                return
            for place in [Place(key, *one) for one in self._tables[key]]:
                self._drop(place)
            del self._kinds[key], self._tables[key]

    def kinds(self) -> list[KindInfo]:
        with self._lock:
            return list(self._kinds.values())

    def kind(self, key: str) -> KindInfo:
        """Of `pods`, `leaderworkersets.leaderworkerset.x-k8s.io`."""
        info = self._kinds.get(key)
        if info is None:
            raise no_such_path()
        return info

    def kind_of(self, obj: Mapping[str, Any]) -> KindInfo:
        """Of what an object says that it is."""
        group, _, version = str(obj.get("apiVersion") or "").rpartition("/")
        for info in self._kinds.values():
            if (info.group, info.kind) == (group, obj.get("kind")) and version in info.versions:
                return info
        raise ApiProblem(
            404, "NotFound", f'no matches for kind "{obj.get("kind")}" in version "{obj.get("apiVersion")}"'
        )

    # reading

    def get(self, plural_key: str, namespace: str | None, name: str) -> Object:
        with self._lock:
            found: Object = copied(self.row(plural_key, namespace, name))
            return found

    def row(self, plural_key: str, namespace: str | None, name: str) -> Object:
        """As `get`, but the stored object itself, which is not to be changed."""
        info = self.kind(plural_key)
        with self._lock:
            found = self._tables[info.key].get(((namespace or "") if info.namespaced else "", name))
        if found is None:
            raise not_found(info.plural, info.group, name)
        return found

    def list(
        self,
        plural_key: str,
        namespace: str | None = None,
        labels: str | Mapping[str, str] | None = None,
        fields: str | None = None,
    ) -> list[Object]:
        """In the order of namespace and name."""
        return [copied(one) for one in self.rows(plural_key, namespace, labels, fields)]

    def rows(
        self,
        plural_key: str,
        namespace: str | None = None,
        labels: str | Mapping[str, str] | None = None,
        fields: str | None = None,
        *,
        at: int | None = None,
    ) -> list[Object]:
        """As `list`, but the stored objects themselves, which are not to be changed. `at`: as it was at that
        resourceVersion; ApiProblem 410 where that is compacted away."""
        info = self.kind(plural_key)
        label_fits, field_fits = labels_fit(labels), fields_fit(fields, info.key)
        with self._lock:
            table = self._tables[info.key]
            if at is not None and at < self.resource_version:
                table = self._table_at(info.key, at)
            found = [table[one] for one in sorted(table) if namespace is None or one[0] == namespace]
        return [one for one in found if label_fits(one) and field_fits(one)]

    def _table_at(self, key: str, version: int) -> dict[tuple[str, str], Object]:
        if version < self.history.oldest:
            message = (
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter."
            )
            raise ApiProblem(410, "Expired", message)
        table = dict(self._tables[key])
        for change in self.history.undone(version):
            if change.place.key != key:
                continue
            if change.before is None:
                table.pop(change.place[1:], None)
            else:
                table[change.place[1:]] = change.before
        return table

    # telling

    def subscribe(self, plural_key: str | None, callback: Listener) -> Callable[[], None]:
        """After each change, in order, `callback(type, object)`; never from within another callback. None: of all
        resources. What it gives ends it."""
        return self.follow(plural_key, lambda change: callback(change.kind, change.after))

    def follow(self, plural_key: str | None, callback: Callable[[Change], None]) -> Callable[[], None]:
        """As `subscribe`, with what was there before."""
        entry = (plural_key, callback)
        with self._lock:
            self._listeners.append(entry)

        def end() -> None:
            with self._lock:
                if entry in self._listeners:
                    self._listeners.remove(entry)

        return end

    @contextmanager
    def still(self) -> Iterator[None]:
        """Nothing changes meanwhile: to read several things as of one moment."""
        with self._lock:
            yield

    def compact(self) -> None:
        """Forgets every state before the present one: watches and pages that go on from one get 410."""
        with self._lock:
            self.history.compact(self.resource_version)

    # inside

    @contextmanager
    def _change(self, dry_run: bool = False) -> Iterator[list[Change]]:
        """What is done within is done as one, or not at all; listeners hear of it afterwards."""
        told: list[Change] = []
        with self._lock:
            before = self.resource_version
            try:
                yield told
            except BaseException:
                self.resource_version = before
                raise
            if dry_run:
                self.resource_version = before
                return
            for change in told:
                self._store(change)
        self._tell()

    def _store(self, change: Change) -> None:
        table = self._tables[change.place.key]
        if change.kind == "DELETED":
            table.pop(change.place[1:], None)
        else:
            table[change.place[1:]] = change.after
        self.history.add(change)
        self._untold.append(change)

    def _tell(self) -> None:
        with self._lock:
            if self._telling:
                return
            self._telling = True
        try:
            while True:
                with self._lock:
                    if not self._untold:
                        self._telling = False
                        return
                    change = self._untold.popleft()
                    callbacks = [one for key, one in self._listeners if key in (None, change.place.key)]
                for callback in callbacks:
                    callback(change)
        except BaseException:
            with self._lock:
                self._telling = False
            raise

    def _put(self, place: Place, obj: Object, kind: str, told: list[Change], *, copy: bool = True) -> Object:
        self.resource_version += 1
        obj["metadata"]["resourceVersion"] = str(self.resource_version)
        before = self._tables[place.key].get(place[1:])
        told.append(Change(self.resource_version, kind, place, obj, before))
        found: Object = copied(obj) if copy else obj
        return found

    def _drop(self, place: Place, obj: Object | None = None, told: list[Change] | None = None) -> Object:
        before = self._tables[place.key][place[1:]]
        self.resource_version += 1
        last: Object = copied(obj or before)
        last["metadata"]["resourceVersion"] = str(self.resource_version)
        change = Change(self.resource_version, "DELETED", place, last, before)
        if told is None:
            self._store(change)
        else:
            told.append(change)
        found: Object = copied(last)
        return found
