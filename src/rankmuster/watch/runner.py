"""A thread for each signal, so that one that hangs holds up neither the looks nor any other signal.

The main loop kicks all that are due, waits a moment for those that answer at once, and goes on without the rest: what
comes later is there for the next look. A poll that does not come back is never begun a second time.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterable

from rankmuster.collect.deadline import Deadline
from rankmuster.watch.signals.signal import Failed, Said, Signal

MOST_HELD = 20_000
"""What one signal may have said between two looks: a log that bursts says some thousands of lines. Older is dropped."""

LEAST_PATIENCE = 2.0
"""Seconds a poll has at least, however short the period: an engine under load answers in tenths, DCGM in one."""

PATIENCE = 0.8
"""... and this part of its period otherwise, so that it is over before it is due again."""


class Runner:
    """One signal's thread. `clock`: monotonic seconds. `done`: called at the end of each poll, from its thread."""

    def __init__(self, signal: Signal, clock: Callable[[], float], done: Callable[[], None]) -> None:
        self.signal = signal
        self.dropped = 0
        self._clock = clock
        self._done = done
        self._due = clock()
        self._go = threading.Event()
        self._closed = False
        self._busy_since: float | None = None
        self._held: deque[Said] = deque()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"signal-{signal.name}", daemon=True)
        self._thread.start()

    @property
    def patience(self) -> float:
        """Seconds that a poll may take; a signal that knows better says so itself (`patience`)."""
        own = getattr(self.signal, "patience", None)
        return float(own) if own is not None else max(PATIENCE * self.signal.period, LEAST_PATIENCE)

    @property
    def busy(self) -> bool:
        """Whether a poll runs."""
        return self._busy_since is not None

    def kick(self, now: float, slack: float) -> bool:
        """Begins a poll if one is due within `slack` seconds and none runs; whether it did."""
        if self._closed or self.busy or now < self._due - slack:
            return False
        # From the plan, not from now: delays must not add up. After a pause (a suspended machine) from now on.
        planned = self._due + self.signal.period
        self._due = planned if planned > now else now + self.signal.period
        self._busy_since = now
        self._go.set()
        return True

    def drain(self, now: float) -> list[Said]:
        """What was said since the last call, and that nothing was where a poll is overdue."""
        with self._lock:
            said, self._held = list(self._held), deque()
        since = self._busy_since
        if since is not None and now - since > self.patience + LEAST_PATIENCE:
            reason = f"{self.signal.name} was asked {now - since:.0f} s ago and has not come back"
            said.append(Failed(now, self.signal.plane, reason))
        return said

    def close(self) -> None:
        """Ends the thread where it waits; one that hangs is left behind, and ends with the process."""
        self._closed = True
        self._go.set()
        with contextlib.suppress(Exception):
            self.signal.close()

    def _run(self) -> None:
        while True:
            self._go.wait()
            self._go.clear()
            if self._closed:
                return
            try:
                self._keep(self.signal.poll(Deadline.after(self.patience, self._clock)))
            except Exception as error:  # a defect in one signal must not end the watch
                reason = f"{self.signal.name} broke down ({type(error).__name__}: {error}): a bug in rankmuster"
                self._keep((Failed(self._clock(), self.signal.plane, reason[:300]),))
            self._busy_since = None
            self._done()

    def _keep(self, said: Iterable[Said]) -> None:
        for one in said:
            with self._lock:
                if len(self._held) >= MOST_HELD:
                    self._held.popleft()
                    self.dropped += 1
                self._held.append(one)


class Crew:
    """All runners of a watch. Not for several threads at once."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._runners: dict[tuple[str, str], Runner] = {}
        self._news = threading.Event()

    def set(self, owner: str, signals: Iterable[Signal]) -> None:
        """The signals of one owner (an instance, "" for the node): those that it had before are closed."""
        self.drop(owner)
        for signal in signals:
            self._runners[owner, signal.name] = Runner(signal, self._clock, self._news.set)

    def drop(self, owner: str) -> None:
        """Closes the signals of one owner."""
        for key in [key for key in self._runners if key[0] == owner]:
            self._runners.pop(key).close()

    def of(self, owner: str) -> tuple[Signal, ...]:
        """The signals of one owner."""
        return tuple(runner.signal for key, runner in self._runners.items() if key[0] == owner)

    def poll(self, slack: float, grace: float, wake: threading.Event) -> None:
        """Begins every poll that is due, and waits at most `grace` seconds for their ends, or until `wake` is set."""
        now = self._clock()
        begun = [runner for runner in self._runners.values() if runner.kick(now, slack)]
        end = now + grace
        while any(runner.busy for runner in begun) and not wake.is_set():
            left = end - self._clock()
            if left <= 0:
                return
            self._news.wait(left)
            self._news.clear()

    def drain(self, now: float) -> list[tuple[str, Said]]:
        """(owner, what its signals said), each signal's in the order in which it was said."""
        return [(key[0], said) for key, runner in self._runners.items() for said in runner.drain(now)]

    def close(self) -> None:
        """Closes everything."""
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()
