"""Keeps one child that asks NVML, and says when another may follow: with growing pauses, without end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.node.nvml_session import NvmlSession

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 600.0
"""Seconds before a new child, doubled each time: starting NVML costs 0.1 to 2 s of processor time. A child that lives
and has a failing GPU is kept for so long, for the sake of the others."""

MOST_LEFT_BEHIND = 2
"""Children in uninterruptible sleep that are left behind; while there are so many, no other joins them."""


class Child:
    """At most one at a time. `xids`: whether it listens for them. Not for several threads, but for `kill`.

    `starts`: children so far. `began`: when this one was started, on `clock`.
    """

    def __init__(self, *, xids: bool, clock: Clock, first_pause: float) -> None:
        self._xids = xids
        self._clock = clock
        self._first_pause = self.pause = first_pause
        self._session: NvmlSession | None = None
        self._left: list[NvmlSession] = []
        self._again = float("-inf")
        self._ended_cpu = self._cpu = 0.0
        self.starts = 0
        self.began = 0.0

    @property
    def lives(self) -> bool:
        """Whether there is one that was not given up."""
        return self._session is not None

    @property
    def ended(self) -> bool:
        """Whether it ended by itself."""
        return self._session is not None and self._session.ended

    @property
    def pid(self) -> int | None:
        session = self._session
        return session.pid if session is not None else None

    @property
    def cpu_seconds(self) -> float:
        """Processor time of all so far, as they said it themselves."""
        return self._ended_cpu + self._cpu

    def start(self) -> str | None:
        """Starts one; why it could not be, None where it was. Only where none lives and `due`."""
        if self.blocked() >= MOST_LEFT_BEHIND:
            return (
                f"{len(self._left)} processes that asked NVML do not die: the driver blocks them; no other is started"
            )
        try:
            self._session = NvmlSession(mode="rounds", xids=self._xids)
        except OSError as error:
            self.give_up()
            return f"the process that asks NVML could not be started ({error.strerror or error})"
        self.starts += 1
        self.began = self._clock()
        return None

    @property
    def due(self) -> bool:
        """Whether the pause before the next one is over."""
        return self._clock() >= self._again

    def round(self, deadline: Deadline) -> list[Mapping[str, Any]]:
        """All lines up to the end of a round that is asked for here; asked again where NVML has just started."""
        session = self._session
        if session is None:
            return []
        session.ask()
        found: list[Mapping[str, Any]] = []
        waiting = False
        while not deadline.passed:
            lines = session.lines(deadline)
            found += lines
            if session.ended or any(line.get("kind") == "unusable" for line in lines):
                break
            rounds = [line for line in lines if line.get("kind") == "round"]
            for line in rounds:
                cpu = line.get("cpu_seconds")
                self._cpu = float(cpu) if isinstance(cpu, (int, float)) else self._cpu
            if any(line.get("begun") for line in rounds):
                break
            waiting = waiting or bool(rounds)
            if waiting and any(line.get("kind") == "driver" for line in found):
                waiting = False
                session.ask()
        return found

    def give_up(self, *, rest: float | None = None, longer: float = 0.0) -> str | None:
        """Ends it; how it ended where that was of its own and not well. `rest`: seconds before the next one, else the
        pause, which doubles, and is at least `longer` from now on."""
        how = self.end()
        self._again = self._clock() + (self.pause if rest is None else rest)
        if rest is None or longer:
            self.pause = min(max(2 * self.pause, longer), max(LONGEST_PAUSE, self._first_pause))
        return how

    def well(self) -> None:
        """Everything has answered for long: the next pause is a short one again."""
        self.pause = self._first_pause

    def blocked(self) -> int:
        """Former ones that cannot die."""
        self._left = [session for session in self._left if not session.gone]
        return len(self._left)

    def kill(self) -> None:
        """Lets a `round` in another thread come back; `end` is still to be called."""
        session = self._session
        if session is not None:
            session.kill()

    def end(self) -> str | None:
        """Ends it; how it ended where that was of its own and not well."""
        session, self._session = self._session, None
        self._ended_cpu, self._cpu = self._ended_cpu + self._cpu, 0.0
        if session is None:
            return None
        how = session.close()
        if not session.gone:
            self._left.append(session)
        return how
