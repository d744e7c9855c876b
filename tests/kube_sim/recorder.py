"""Every request that came, as an authoriser sees it: from it the roles of an installation are compared with what its
code used."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Asked:
    """`group` empty: the core. `status`: HTTP's answer, 0 where none was given. `user`: by its token, else empty.
    `path`: of what is no resource; then `resource` is empty."""

    verb: str
    group: str
    resource: str
    subresource: str
    namespace: str | None
    name: str | None
    agent: str
    user: str
    status: int = 0
    path: str = ""

    @property
    def right(self) -> tuple[str, str, str]:
        """(group, resource or resource/subresource, verb), as a rule has it."""
        return self.group, f"{self.resource}/{self.subresource}" if self.subresource else self.resource, self.verb


class Recorder:
    """Thread-safe. Of `most` requests at most, the newest; the counts are of all."""

    def __init__(self, most: int = 200_000) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._asked: list[Asked] = []
        self.counts: Counter[tuple[str, str, str]] = Counter()

    def add(self, asked: Asked) -> None:
        with self._lock:
            self._asked.append(asked)
            if len(self._asked) > self._most:
                del self._asked[: self._most // 4]
            if asked.resource:
                self.counts[asked.right] += 1

    def asked(self, *, agent: str = "", user: str = "", resource: str = "", verb: str = "") -> list[Asked]:
        """Oldest first; of those whose user agent begins with `agent`, and so on."""
        with self._lock:
            found = list(self._asked)
        return [
            one
            for one in found
            if one.agent.startswith(agent)
            and user in ("", one.user)
            and resource in ("", one.resource)
            and verb in ("", one.verb)
        ]

    def rights(self, *, agent: str = "", user: str = "") -> set[tuple[str, str, str]]:
        """(group, resource, verb) that were used. Who opens a WebSocket to exec asks for `get`, and from 1.35 on for
        `create` too; who applies what is not there asks for `patch` and `create`: those are in it."""
        found = {one.right for one in self.asked(agent=agent, user=user) if one.resource}
        return found | {
            (group, resource, "create")
            for group, resource, verb in found
            if verb == "get" and resource in ("pods/exec", "pods/attach", "pods/portforward")
        }

    def clear(self) -> None:
        with self._lock:
            self._asked.clear()
            self.counts.clear()
