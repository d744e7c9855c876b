"""Which controller works: the holder of a Lease. The others wait, and follow when it was not renewed in time.

A leader that cannot renew ends itself before anybody else may begin (`renew_seconds` < `lease_seconds`). Nobody trusts
another host's clock: how old a lease is, each measures by its own, from when it saw the lease change. Even two leaders
at once would not run one runbook twice, since the journal has leases of its own; this keeps watches and writes single.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from rankmuster.adapters.kube.api import LEASES, Api, Conflict, KubeError, NotThere, Object
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.kube.controller.said_once import SaidOnce
from rankmuster.kube.controller.settings import Election as Settings

CALL_SECONDS = 5.0
"""For one call about the Lease: an API server that takes longer is treated as one that does not answer."""


@dataclass(frozen=True, slots=True)
class Observed:
    """A lease as it was last seen. `since`: seconds of our own clock at which it looked so for the first time."""

    holder: str = ""
    renewed: str = ""
    seconds: float = 0.0
    transitions: int = 0
    since: float = float("-inf")
    version: str | None = None


def observe(before: Observed, raw: Object | None, now: float) -> Observed:
    """What is known after a look. Anything odd in it is taken for a lease that somebody holds."""
    if raw is None:
        return Observed(since=now)
    spec = raw.get("spec")
    spec = spec if isinstance(spec, dict) else {}
    seconds = spec.get("leaseDurationSeconds")
    seen = Observed(
        holder=str(spec.get("holderIdentity") or ""),
        renewed=str(spec.get("renewTime") or ""),
        seconds=float(seconds) if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) else 15.0,
        transitions=int(spec.get("leaseTransitions") or 0),
        since=now,
        version=str((raw.get("metadata") or {}).get("resourceVersion") or "") or None,
    )
    same = (seen.holder, seen.renewed) == (before.holder, before.renewed)
    return replace(seen, since=before.since) if same and before.version is not None else seen


def may_take(seen: Observed, us: str, now: float) -> bool:
    """Whether we may write ourselves into it."""
    return not seen.holder or seen.holder == us or now - seen.since > seen.seconds


def body(
    settings: Settings, namespace: str, seen: Observed, us: str, unix_now: float, *, release: bool = False
) -> Object:
    """The Lease as we write it; bound to what was seen by its resourceVersion."""
    stamp = datetime.fromtimestamp(unix_now, timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    taken = seen.holder != us and not release
    spec: dict[str, Any] = {
        "holderIdentity": "" if release else us,
        "leaseDurationSeconds": max(round(settings.lease_seconds), 1),
        "renewTime": stamp,
        "leaseTransitions": seen.transitions + (1 if taken else 0),
    }
    if taken:
        spec["acquireTime"] = stamp
    metadata: dict[str, Any] = {"name": settings.name, "namespace": namespace}
    if seen.version is not None:
        metadata["resourceVersion"] = seen.version
    return {"apiVersion": LEASES.api_version, "kind": LEASES.kind, "metadata": metadata, "spec": spec}


class Election:
    """`us`: this controller's name, never that of another. `wait(seconds)`: says whether it is to end."""

    def __init__(
        self,
        api: Api,
        settings: Settings,
        namespace: str,
        us: str,
        *,
        clock: Clock,
        unix_now: Callable[[], float],
        wait: Callable[[float], bool],
        say: Callable[[str], None],
    ) -> None:
        self._api, self._settings, self._namespace, self._us = api, settings, namespace, us
        self._clock, self._unix_now, self._wait, self._say = clock, unix_now, wait, say
        self._seen = Observed()
        self._once = SaidOnce(say)
        self.leads_until = float("-inf")

    def lead(self) -> bool:
        """Waits until we lead. False where we are to end."""
        while True:
            if self._round():
                self._tell(f"{self._us} leads")
                return True
            if self._wait(self._settings.retry_seconds):
                return False

    def keep(self) -> None:
        """Renews as long as it can; returns when we lead no more, or are to end (then the Lease is given back)."""
        while not self._wait(self._settings.retry_seconds):
            self._round()
            if self._clock() >= self.leads_until:
                self._tell(f"{self._us} leads no more: the Lease could not be renewed in time, or somebody has it")
                return
        self._release()

    @property
    def leads(self) -> bool:
        """Whether nobody else may believe to lead now."""
        return self._clock() < self.leads_until

    def _round(self) -> bool:
        begun = self._clock()
        deadline = Deadline.after(min(CALL_SECONDS, self._settings.renew_seconds / 2), self._clock)
        try:
            self._seen = observe(self._seen, self._read(deadline), begun)
            if not may_take(self._seen, self._us, begun):
                self.leads_until = float("-inf")
                self._tell(f"{self._seen.holder} leads; waiting")
                return False
            written = self._write(
                body(self._settings, self._namespace, self._seen, self._us, self._unix_now()), deadline
            )
            self._seen = observe(self._seen, written, begun)
        except Conflict:
            return False  # somebody was faster; the next round sees who
        except KubeError as error:
            self._tell(f"the Lease {self._settings.name} could not be asked for: {error}")
            return False
        self.leads_until = begun + self._settings.renew_seconds
        return True

    def _read(self, deadline: Deadline) -> Object | None:
        try:
            return self._api.get(LEASES, self._settings.name, self._namespace, deadline)
        except NotThere:
            return None

    def _write(self, wanted: Object, deadline: Deadline) -> Object:
        if self._seen.version is None:
            return self._api.create(LEASES, wanted, self._namespace, deadline)
        patch = {"metadata": {"resourceVersion": self._seen.version}, "spec": wanted["spec"]}
        return self._api.patch(LEASES, self._settings.name, self._namespace, patch, deadline)

    def _release(self) -> None:
        if not self.leads:
            return
        try:
            gone = body(self._settings, self._namespace, self._seen, self._us, self._unix_now(), release=True)
            self._write(gone, Deadline.after(CALL_SECONDS, self._clock))
        except KubeError as error:
            self._say(f"the Lease could not be given back, and runs out by itself: {error}")
        self.leads_until = float("-inf")

    def _tell(self, said: str) -> None:
        self._once.tell("lease", said)
