"""Every change of the store in order, as far back as it has not been compacted: what watches replay, and what pages of
one list are read from."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

Object = dict[str, Any]


class Place(NamedTuple):
    """Of one object: resource, namespace (empty for the cluster's), name."""

    key: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Change:
    """`kind`: ADDED, MODIFIED, DELETED. `before`: what was there, None of a new one. None of it is to be changed."""

    version: int
    kind: str
    place: Place
    after: Object
    before: Object | None


class History:
    """At most `most` changes; older ones are compacted away, as a real server does every five minutes."""

    def __init__(self, most: int = 20_000) -> None:
        self._most = most
        self._changes: deque[Change] = deque()
        self.oldest = 0
        """Changes up to here are gone: whoever asks for an older state gets 410."""

    def add(self, change: Change) -> None:
        self._changes.append(change)
        while len(self._changes) > self._most:
            self.oldest = self._changes.popleft().version

    def compact(self, version: int) -> None:
        """Forgets all changes up to `version`."""
        while self._changes and self._changes[0].version <= version:
            self._changes.popleft()
        self.oldest = max(self.oldest, version)

    def since(self, version: int) -> list[Change]:
        """Newer than `version`, oldest first."""
        newer = []
        for change in reversed(self._changes):
            if change.version <= version:
                break
            newer.append(change)
        return newer[::-1]

    def undone(self, version: int) -> Iterator[Change]:
        """Newer than `version`, newest first: what has to be taken back to see the state at `version`."""
        for change in reversed(self._changes):
            if change.version <= version:
                return
            yield change
