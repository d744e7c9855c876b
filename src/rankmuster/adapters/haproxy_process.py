"""One HAProxy process and one server in it: commands, and what they did as the process itself shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from rankmuster.adapters.haproxy_answers import (
    NotUnderstood,
    ServerStat,
    ServerState,
    complaint,
    read_stat,
    read_state,
)
from rankmuster.adapters.haproxy_socket import NotAsked, ask
from rankmuster.collect.deadline import Deadline

POLL_SECONDS = 0.05
"""Between two looks whether a command has shown: it is carried out before the answer, sessions end right after."""

_T = TypeVar("_T")


class Trouble(Exception):
    """It could not be done, or not be seen; the message says what came back. `late`: for want of time. `refused`: the
    process forbids it, and always will."""

    def __init__(self, message: str, *, late: bool = False, refused: bool = False) -> None:
        super().__init__(message)
        self.late = late
        self.refused = refused


@dataclass(frozen=True, slots=True)
class HaproxyProcess:
    """`socket`: a path or HOST:PORT."""

    socket: str
    backend: str
    server: str
    pause: Callable[[float], None] = time.sleep

    @property
    def target(self) -> str:
        return f"{self.backend}/{self.server}"

    def state(self, deadline: Deadline) -> ServerState:
        """As it is now. Raises Trouble, and NoServer where the process does not know it."""
        return self._read(f"show servers state {self.backend}", read_state, deadline)

    def stat(self, deadline: Deadline) -> ServerStat:
        """Its counters now. Raises as `state` does."""
        return self._read(f"show stat {self.backend} 4 -1", read_stat, deadline)

    def _read(self, command: str, read: Callable[[str, str, str], _T], deadline: Deadline) -> _T:
        try:
            return read(ask(self.socket, command, deadline), self.backend, self.server)
        except NotAsked as error:
            raise Trouble(str(error), late=deadline.passed) from error
        except NotUnderstood as error:
            raise Trouble(f"`{command}`: {error}") from error

    def change(self, command: str, deadline: Deadline) -> None:
        """Has `set server TARGET ...` or the like carried out. Raises Trouble with what HAProxy says to it.

        A command that was taken and not answered may have been carried out: the look that follows tells.
        """
        try:
            said = complaint(ask(self.socket, command, deadline))
        except NotAsked as error:
            if error.sent and not deadline.passed:
                return
            raise Trouble(f"`{command}`: {error}", late=deadline.passed) from error
        if said is None:
            return
        denied = said.startswith("Permission denied")
        refused = denied or said.startswith("Backend is using a static LB algorithm")
        advice = ": the socket needs `level admin`" if denied else ""
        raise Trouble(f'`{command}`: HAProxy answered "{said}"{advice}', refused=refused)

    def until(self, holds: Callable[[ServerState], bool], wanted: str, deadline: Deadline) -> ServerState:
        """Looks until `holds`. Raises Trouble (late) where it does not by the deadline."""
        while True:
            state = self.state(deadline)
            if holds(state):
                return state
            if deadline.remaining() <= POLL_SECONDS:
                raise Trouble(
                    f"it took the command and {wanted} does not show (admin state {state.admin:#04x})", late=True
                )
            self.pause(POLL_SECONDS)
