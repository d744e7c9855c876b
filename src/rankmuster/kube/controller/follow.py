"""What opens an incident in a cluster: what the sidecars' watches say, and groups of pods whose engines have ended.

The rules are those of one host (`incident.follow`): a stop that was handled once is not handled again.
"""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.adapters.kube.pods import ended, engines
from rankmuster.incident.handled import handled
from rankmuster.incident.seen import Seen
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.states import State, States
from rankmuster.model.fault import Progress
from rankmuster.model.incident import SERVED, IncidentHead, OpenedBy, Opening
from rankmuster.model.kube import ContainerView


class KubeFollower:
    """`newest`: the newest incident of an instance, from the journal. `ready`: whether the watches told all. `newer`:
    why our resources are not ours to work with; empty where they are."""

    def __init__(
        self,
        fleet: Fleet,
        states: States,
        newest: Callable[[str], IncidentHead | None],
        *,
        unix_now: Callable[[], float],
        ready: Callable[[], bool],
        newer: Callable[[], str] = lambda: "",
    ) -> None:
        self._fleet, self._states, self._newest = fleet, states, newest
        self._unix_now, self._ready, self._newer = unix_now, ready, newer
        self.problem: str | None = None

    def seen(self, instance: str) -> Seen | None:
        """What the watch says of it now."""
        return self._states.seen(instance)

    def poll(self) -> tuple[Opening, ...]:
        """What an incident has to be opened for, each once."""
        if not self._ready():
            self.problem = "the watches of the API server have not told everything yet: nothing is opened"
            return ()
        self.problem = self._newer() or None
        if self.problem is not None:
            return ()
        found = []
        for known in self._fleet.instances():
            spec = known.policy.spec
            if spec is None or spec.paused or known.policy.deleting or known.view.problem or known.view.anchor is None:
                continue
            opening = self._by_group(known) or self._by_watch(known)
            if opening is not None:
                found.append(opening)
        return tuple(found)

    def _by_watch(self, known: Known) -> Opening | None:
        state = self._states.state(known.name)
        if state is None or state.view is None or state.view.state not in (Progress.STOPPED, Progress.SLOW):
            return None
        if not about_what_runs(known, state):
            return None
        stopped = state.view.state is Progress.STOPPED
        by = OpenedBy.STOPPED if stopped else OpenedBy.SLOW
        since = min(state.view.since - state.skew, state.at)
        if self._handled(known, since, by):
            return None
        return self._opening(known, by, state.view.state, since, state.view.reason, state)

    def _by_group(self, known: Known) -> Opening | None:
        last = ended_by_itself(known)
        if last is None:
            return None
        at = min(last.ended_at if last.ended_at is not None else self._unix_now(), self._unix_now())
        if self._handled(known, at, OpenedBy.ENDED):
            return None
        how = f"signal {last.signal}" if last.signal else f"exit status {last.exit_code}"
        word = f" ({last.reason})" if last.reason else ""
        reason = f"its engine has ended by itself: container {last.name}, {how}{word}"
        return self._opening(known, OpenedBy.ENDED, Progress.STOPPED, at, reason, None)

    def _handled(self, known: Known, since: float, by: OpenedBy) -> bool:
        """Incarnations have exact names here, and tell more than clocks of nodes and of the controller before this one.

        A start ends once. And what came after one that was rebuilt, and served, has stopped anew: also where that was
        before its incident was closed.
        """
        newest, incarnation = self._newest(known.name), known.incarnation
        if newest is not None and newest.closed_at is not None and newest.incarnation and incarnation:
            same = newest.incarnation == incarnation
            if same and by is OpenedBy.ENDED and newest.by is OpenedBy.ENDED:
                return True
            if not same and newest.outcome in SERVED:
                return False
        return handled(newest, since, by)

    def _opening(
        self, known: Known, by: OpenedBy, progress: Progress, since: float, reason: str, state: State | None
    ) -> Opening:
        anchor = known.view.anchor
        view = state.view if state is not None else None
        return Opening(
            instance=known.name,
            incarnation=known.incarnation,
            by=by,
            progress=progress,
            at=self._unix_now(),
            since=since,
            reason=reason,
            host=anchor.name if anchor is not None else "",
            deployment=view.deployment if view is not None and view.deployment else known.view.workload,
        )


def about_what_runs(known: Known, state: State) -> bool:
    """Whether what a sidecar said is about the pods that are there: it is of one of them, none of them is on its way
    out, and no engine has been started since the watch looked."""
    if state.pod_uid not in {pod.uid for pod in known.view.pods}:
        return False
    for pod in known.view.pods:
        if pod.deleting:
            return False
        if any(one.started_at is not None and one.started_at > state.at for one in engines(pod, known.container)):
            return False
    return True


def ended_by_itself(known: Known) -> ContainerView | None:
    """The engine's container that ended first, where none of the group runs, and nobody has told it to end."""
    found = []
    for pod in known.view.pods:
        if pod.deleting or pod.phase == "Succeeded" or pod.disruption is not None:
            return None
        boxes = engines(pod, known.container)
        if not boxes or any(one.running for one in boxes):
            return None
        over = [one for one in boxes if one.exit_code is not None]
        if not over and not ended(pod):
            return None  # it has not begun yet
        found += over
    if not found or (known.view.size is not None and len(known.view.pods) < known.view.size):
        return None
    return min(found, key=lambda one: one.ended_at if one.ended_at is not None else float("inf"))
