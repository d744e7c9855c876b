"""Looks at one process group that hold nobody up: a supervisor that hangs takes no time from the other instances."""

from __future__ import annotations

import threading

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.incident.actuators import Group
from rankmuster.model.incident import GroupLook, GroupState

LOOK_SECONDS = 2.0
"""For a supervisor's answer about its group: it knows, and is asked over a local socket."""


class Looking:
    """One look at a time, in a thread of its own; for one caller."""

    def __init__(self, group: Group, clock: Clock) -> None:
        self._group, self._clock = group, clock
        self._begun = float("-inf")
        self._over = threading.Event()
        self._over.set()
        self._unread = False
        self._answer: GroupLook | None = None

    def fresh(self, seconds: float) -> GroupLook | None:
        """One that nobody was given before; waits for it so long. None where it is not there yet: ask again."""
        if self._over.is_set() and not self._unread:
            self._begin()
        if not self._over.wait(seconds):
            return None
        self._unread = False
        return self._answer

    def newest(self, every: float, seconds: float) -> GroupLook | None:
        """The newest there is; another one is begun where that is older than `every` seconds, and waited for so long.
        None where there was none yet."""
        if self._over.is_set() and self._clock() - self._begun >= every:
            self._begin()
        if self._over.wait(seconds):
            self._unread = False
        return self._answer

    def _begin(self) -> None:
        self._begun = self._clock()
        self._over.clear()
        try:
            threading.Thread(target=self._look, name="incident-look", daemon=True).start()
        except RuntimeError as error:  # no thread is to be had
            self._end(GroupLook(state=GroupState.UNKNOWN, note=f"nobody could look: {error}"))

    def _look(self) -> None:
        answer = GroupLook(state=GroupState.UNKNOWN, note="it could not be looked at")
        try:
            answer = self._group.look(Deadline.after(LOOK_SECONDS, self._clock))
        except Exception as error:  # an actuator's fault is no service's end
            answer = GroupLook(state=GroupState.UNKNOWN, note=f"the look raised {type(error).__name__}: {error}")
        finally:
            self._end(answer)

    def _end(self, answer: GroupLook) -> None:
        self._answer, self._unread = answer, True
        self._over.set()
