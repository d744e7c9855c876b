"""Watches: what has changed since a resourceVersion, then what changes, with bookmarks, until time is over, somebody
cuts it, or its reader is too slow."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from kube_sim.call import Call, Object, encoded, shown
from kube_sim.history import Change
from kube_sim.problems import expired
from kube_sim.reading import selected, version_of
from kube_sim.selectors import fields_fit, labels_fit
from kube_sim.store import Store

MOST_UNREAD = 50_000
"""Events that may wait for one reader; then the server ends the watch, as the real one does."""

Line = bytes | None
"""One line of the stream; None: the end."""


@dataclass(eq=False)
class Watcher:
    """One open watch. `put` is called from whatever thread; lines are read in the server's."""

    call: Call
    loop: asyncio.AbstractEventLoop
    lines: asyncio.Queue[Line] = field(default_factory=asyncio.Queue)
    cut: bool = False

    def put(self, line: Line) -> None:
        with suppress(RuntimeError):  # the server is gone
            self.loop.call_soon_threadsafe(self._put, line)

    def _put(self, line: Line) -> None:
        if self.lines.qsize() > MOST_UNREAD:
            self.cut = True
        self.lines.put_nowait(line)

    def bookmark(self, version: int, *, initial: bool = False) -> None:
        """That everything up to `version` has been sent."""
        target = self.call.target
        metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
        if initial:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": target.info.kind, "apiVersion": target.api_version, "metadata": metadata}
        self.put(line_of("BOOKMARK", obj))


def line_of(kind: str, obj: Object) -> bytes:
    return encoded({"type": kind, "object": obj}) + b"\n"


class Watching:
    """All open watches of a server. `bookmark_seconds`: between two bookmarks."""

    def __init__(self, store: Store, bookmark_seconds: float = 60.0) -> None:
        self._store = store
        self._seconds = bookmark_seconds
        self._random = random.Random(0)
        self.open: set[Watcher] = set()

    def bookmark(self) -> None:
        """To all who want some, now."""
        with self._store.still():
            for watcher in list(self.open):
                if watcher.call.query.get("allowWatchBookmarks") in ("true", "True", "1"):
                    watcher.bookmark(self._store.resource_version)

    def drop(self, plural: str = "", *, cut: bool = False) -> int:
        """Ends all watches (of one resource); `cut`: as a lost connection, not as the end of an answer. How many."""
        found = [one for one in list(self.open) if plural in ("", one.call.target.info.plural)]
        for watcher in found:
            watcher.cut = cut
            watcher.put(None)
        return len(found)

    async def lines(self, call: Call, *, silent: bool = False) -> AsyncIterator[bytes]:
        """Raises ConnectionAbortedError where it is to be cut. Selectors that are wrong are ApiProblem."""
        watcher = Watcher(call, asyncio.get_running_loop())
        end = self._begin(watcher, silent)
        self.open.add(watcher)
        seconds = float(call.query.get("timeoutSeconds") or self._random.uniform(1800, 3600))
        over = watcher.loop.time() + seconds
        marks = not silent and call.query.get("allowWatchBookmarks") in ("true", "True", "1")
        try:
            while (left := over - watcher.loop.time()) > 0 and not watcher.cut:
                try:
                    line = await asyncio.wait_for(watcher.lines.get(), min(left, self._seconds if marks else left))
                except asyncio.TimeoutError:
                    if marks:
                        with self._store.still():
                            watcher.bookmark(self._store.resource_version)
                    continue
                if line is None:
                    break
                yield line
            if watcher.cut:
                raise ConnectionAbortedError
        finally:
            self.open.discard(watcher)
            end()

    def _begin(self, watcher: Watcher, silent: bool) -> Callable[[], None]:
        """What is to be told at once, and from now on without a gap."""
        call, store = watcher.call, self._store
        if silent:
            return lambda: None
        asked = version_of(call)
        initial = call.query.get("sendInitialEvents") in ("true", "True", "1")
        tell = self._teller(watcher)
        with store.still():
            if initial or not asked:
                for obj in selected(store, call):
                    watcher.put(line_of("ADDED", shown(obj, call.target.info, call.target.version)))
                if initial:
                    watcher.bookmark(store.resource_version, initial=True)
            elif asked < store.history.oldest:
                watcher.put(line_of("ERROR", expired(asked, store.history.oldest).body()))
                watcher.put(None)
            else:
                for change in store.history.since(asked):
                    if change.place.key == call.target.info.key:
                        tell(change)
            done = store.resource_version
            return store.follow(call.target.info.key, lambda change: tell(change) if change.version > done else None)

    def _teller(self, watcher: Watcher) -> Callable[[Change], None]:
        target, query = watcher.call.target, watcher.call.query
        label_fits, field_fits = (
            labels_fit(query.get("labelSelector")),
            fields_fit(query.get("fieldSelector"), target.info.key),
        )

        def fits(obj: Object | None) -> bool:
            return obj is not None and label_fits(obj) and field_fits(obj)

        def tell(change: Change) -> None:
            if target.namespace is not None and change.place.namespace != target.namespace:
                return
            if target.name is not None and change.place.name != target.name:
                return
            was, now = fits(change.before), change.kind != "DELETED" and fits(change.after)
            if not was and not now:
                return
            kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
            watcher.put(line_of(kind, shown(change.after, target.info, target.version)))

        return tell
