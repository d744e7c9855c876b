"""Keeps the right to work on one instance while a runbook runs, and says when it is lost.

The journal's clock gives leases out and takes them back; how long one is good for is measured here from before it was
asked for, on a clock that never jumps: whatever the journal's clock is, ours is never the later one.
"""

from __future__ import annotations

import contextlib
import threading

from rankmuster.collect.deadline import Clock
from rankmuster.incident.journal import Journal, LeaseLost
from rankmuster.model.incident import Lease

LEASE_SECONDS = 10.0
"""A runner that died is followed by one on another host after this, within the seconds of the step that it was in; a
database that is away for less changes nothing."""

RENEWALS = 3
"""Of one lease: two of them may fail."""

FRESH = 2 / 3
"""Share of a lease that has to be left when a long action begins; it is renewed as the action goes. Longer leases would
keep the next runner out until the time of the step is over."""

RETRY_SECONDS = 1.0
"""Between two attempts while the journal fails."""


class LeaseKeeper:
    """`take` first; then a thread renews at a third of `seconds` until `close`. Everything here may be called from any
    thread."""

    def __init__(
        self, journal: Journal, instance: str, holder: str, clock: Clock, seconds: float = LEASE_SECONDS
    ) -> None:
        self._journal, self._instance, self._holder = journal, instance, holder
        self._clock, self._seconds = clock, seconds
        self._lock = threading.Lock()
        self._lease: Lease | None = None
        self._good_until = float("-inf")
        self._lost: str | None = None
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> bool:
        """False where another runner has it. Raises what the journal raises when it fails."""
        with self._lock:
            asked = self._clock()
            lease = self._journal.take_lease(self._instance, self._holder, self._seconds)
            if lease is None:
                return False
            self._lease, self._good_until, self._lost = lease, asked + self._seconds, None
        self._thread = threading.Thread(target=self._keep, name=f"lease-{self._instance}", daemon=True)
        self._thread.start()
        return True

    @property
    def lost(self) -> str | None:
        """Why nothing more may be done; None while it is ours."""
        with self._lock:
            return self._why_lost()

    @property
    def lease(self) -> Lease:
        """Raises LeaseLost where it is not ours, or may not be."""
        with self._lock:
            why = self._why_lost()
            if why is not None or self._lease is None:
                raise LeaseLost(why or f"no lease of {self._instance} was taken")
            return self._lease

    def cover(self, seconds: float) -> None:
        """Makes sure that it is ours for so long, or freshly renewed where that is longer than a lease.

        Raises LeaseLost, and what the journal raises when it fails.
        """
        wanted = min(seconds, self._seconds * FRESH)
        with self._lock:
            why = self._why_lost()
            if why is not None or self._lease is None:
                raise LeaseLost(why or f"no lease of {self._instance} was taken")
            if self._good_until - self._clock() < wanted:
                self._renew(self._seconds)

    def close(self) -> None:
        """Gives it back, if it is ours; nothing is raised: it runs out by itself."""
        self._closing.set()
        with self._lock:
            if self._lease is not None and self._lost is None:
                with contextlib.suppress(Exception):
                    self._journal.release(self._lease)
            self._lost = self._lost or f"the lease of {self._instance} was given back"
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(RETRY_SECONDS)

    def _why_lost(self) -> str | None:
        """The lock is held."""
        if self._lost is None and self._lease is not None and self._clock() >= self._good_until:
            self._lost = f"the lease of {self._instance} could not be renewed in time; another runner may have it"
        return self._lost

    def _renew(self, seconds: float) -> None:
        """The lock is held, and there is a lease."""
        assert self._lease is not None
        asked = self._clock()
        try:
            self._lease = self._journal.renew(self._lease, seconds)
        except LeaseLost as error:
            self._lost = str(error) or f"another runner has the lease of {self._instance}"
            raise
        self._good_until = asked + seconds

    def _keep(self) -> None:
        pause = self._seconds / RENEWALS
        while not self._closing.wait(pause):
            with self._lock:
                if self._closing.is_set() or self._why_lost() is not None:
                    return
                try:
                    self._renew(self._seconds)
                    pause = self._seconds / RENEWALS
                except LeaseLost:
                    return
                except Exception:  # the journal's own trouble: it runs out unless one of the next attempts is heard
                    pause = min(RETRY_SECONDS, self._seconds / RENEWALS)
