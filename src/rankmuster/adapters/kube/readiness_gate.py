"""One instance's pods are taken out of Services and inference pools by their readiness gate, before anything is killed.

A closed gate makes a pod not Ready; its containers go on, and what runs in them too. The kubelet has to follow: on a
node that is gone nobody does, until the node controller marks its pods not Ready (40 to 50 s). Which gateways heed
readiness stands in `gateways`.

A gate of which nobody has spoken is closed as well, and is left so: the controller opens it when no incident is open,
also where the runbook found the instance without traffic and gives none back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from rankmuster.adapters.kube.api import PODS, Api, KubeError, NotThere
from rankmuster.adapters.kube.endings import failed
from rankmuster.adapters.kube.endpoint_slices import Slices
from rankmuster.adapters.kube.events import Events, Touched
from rankmuster.adapters.kube.gate_condition import open_gate, set_gate
from rankmuster.adapters.kube.pods_of import Pods, doubted, live, names_of, unclear, written
from rankmuster.adapters.kube.rewriting import Pause
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, TrafficLook, TrafficState
from rankmuster.model.kube import GATE, InstanceView, PodView

__all__ = ["ReadinessGate", "open_gate"]

POLL_SECONDS = 0.5
"""Between looks at pods whose kubelets have to follow: they write a status within a second."""


@dataclass(frozen=True, slots=True)
class _Seen:
    """`pods`: those that could get requests. `waits`: their gate is open, and they are not Ready."""

    view: InstanceView
    pods: tuple[PodView, ...]
    look: TrafficLook
    waits: tuple[PodView, ...] = ()


class ReadinessGate:
    """A Traffic."""

    def __init__(
        self,
        api: Api,
        name: str,
        pods: Pods,
        *,
        slices: bool = True,
        events: Events | None = None,
        wall: Callable[[], float] = time.time,
        pause: Pause = time.sleep,
    ) -> None:
        self._api, self._name, self._pods = api, name, pods
        self._slices = Slices(api) if slices else None
        self._events, self._wall, self._pause = events, wall, pause

    @property
    def name(self) -> str:
        """As the journal calls it."""
        return self._name

    def look(self, deadline: Deadline) -> TrafficLook:
        """READY: all gates are open (a note says which pods are not Ready all the same). STOPPED: all are closed, and
        no pod is Ready. MIXED: anything between, also where a kubelet or a Service has not followed."""
        try:
            seen = self._see(deadline)
            return doubted(seen.look, seen.view)
        except KubeError as error:
            return TrafficLook(state=TrafficState.UNKNOWN, note=str(error))

    def stop_new(self, reason: str, deadline: Deadline) -> Answer:
        """Closes all gates, and waits until no pod is Ready. REFUSED where a pod has no gate: it would stay Ready."""
        try:
            view = self._pods(deadline)
        except KubeError as error:
            return failed("no gate was closed, since the pods could not be read", error)
        objection = unclear(view, "no gate was closed")
        if objection is not None:
            return objection
        pods = live(view)
        bare = [one for one in pods if GATE not in one.gates]
        if bare:
            note = (
                f"pods without the readiness gate {GATE} in their spec would go on getting requests: {names_of(bare)}; "
                "no gate was closed. Add it to the pod template with `rankmuster kube inject --gate`, and roll it out"
            )
            return Answer(ending=Ending.REFUSED, note=note, data={"sent": False})
        return self._set(pods, False, reason, deadline)

    def cut(self, reason: str, deadline: Deadline) -> Answer:
        """As `stop_new`; what runs cannot be ended by readiness: REFUSED."""
        stopped = self.stop_new(reason, deadline)
        if stopped.ending is not Ending.DONE:
            return stopped
        note = "readiness cannot end what runs: its clients see their connections break when the group is ended"
        return Answer(ending=Ending.REFUSED, note=f"{stopped.note}; {note}", data=stopped.data)

    def set_weight(self, percent: float, deadline: Deadline) -> Answer:
        """REFUSED: there are no weights."""
        del percent, deadline
        return Answer(ending=Ending.REFUSED, note="readiness has no weights: a pod gets its whole share or nothing")

    def restore(self, deadline: Deadline) -> Answer:
        """Opens all gates, and waits until all pods are Ready. PARTIAL where some are not at the deadline."""
        try:
            view = self._pods(deadline)
        except KubeError as error:
            return failed("no gate was opened, since the pods could not be read", error)
        pods = live(view)
        if not pods:
            note = f"{view.name} has no pods; the gates of new ones have to be opened when they are there"
            return Answer(ending=Ending.FAILED, note=note, data={"sent": False})
        return self._set(pods, True, "the incident is over", deadline)

    def would(self, verb: str, *, percent: float | None = None) -> tuple[str, ...]:
        """The patch, in words."""
        del percent
        if verb == "set_weight":
            return ("nothing: readiness has no weights",)
        status = "True" if verb == "restore" else "False"
        what = f"PATCH pods/*/status of the instance: condition {GATE}={status}"
        return (f"{what}  # every pod, bound to its UID and resourceVersion",)

    def _set(self, pods: Sequence[PodView], opened: bool, reason: str, deadline: Deadline) -> Answer:
        gated = [one for one in pods if GATE in one.gates]
        results = written([partial(self._one, one, opened, reason, deadline) for one in gated], deadline)
        errors = [one for one in results if isinstance(one, KubeError)]
        wrote = sum(one is True for one in results)
        what = f"{wrote} of {len(gated)} gates were {'opened' if opened else 'closed'}"
        if errors:
            missed = [pod for pod, one in zip(gated, results, strict=True) if isinstance(one, KubeError)]
            return failed(f"{what}; not so {names_of(missed)}", errors[0])
        return self._waited(opened, what, reason, deadline)

    def _one(self, pod: PodView, opened: bool, reason: str, deadline: Deadline) -> bool | KubeError:
        try:
            wrote = set_gate(self._api, pod, opened, reason, deadline, wall=self._wall, pause=self._pause)
        except NotThere:
            return False  # it is gone, and gets nothing
        except KubeError as error:
            return error
        if wrote and self._events is not None:
            word = "TrafficRestored" if opened else "TrafficStopped"
            on = Touched(PODS, pod.name, pod.uid, pod.namespace)
            self._events.tell(
                on, word, f"readiness gate {'opened' if opened else 'closed'}: {reason}", warning=not opened
            )
        return wrote

    def _waited(self, opened: bool, what: str, reason: str, deadline: Deadline) -> Answer:
        while True:
            try:
                seen = self._see(deadline)
            except KubeError as error:
                return failed(f"{what}, and whether the pods have followed is not known", error)
            state = seen.look.state
            if opened and state is TrafficState.READY and not seen.waits:
                return Answer(ending=Ending.DONE, note=f"{what}; all {len(seen.pods)} pods are Ready")
            if not opened and state in (TrafficState.STOPPED, TrafficState.ABSENT):
                more = f"; {seen.look.note}" if seen.look.note else ""
                return Answer(ending=Ending.DONE, note=f"{what}; none of {len(seen.pods)} pods is Ready{more}")
            if deadline.remaining() <= POLL_SECONDS:
                break
            self._pause(POLL_SECONDS)
            if not opened:  # of a pod that has come meanwhile
                reopened = [one for one in seen.pods if one.gates.get(GATE)]
                written([partial(self._one, one, False, reason, deadline) for one in reopened], deadline)
        if opened:
            ending = Ending.PARTIAL if state is TrafficState.READY else Ending.TIMED_OUT
            return Answer(ending=ending, note=f"{what}; {seen.look.note}")
        return Answer(ending=Ending.TIMED_OUT, note=f"{what}, and requests may still come: {seen.look.note}")

    def _see(self, deadline: Deadline) -> _Seen:
        view = self._pods(deadline)
        pods = live(view)
        if not pods:
            return _Seen(view, pods, TrafficLook(state=TrafficState.ABSENT, note=f"{view.name} has no pods"))
        opened = [one for one in pods if one.gates.get(GATE, True)]
        late = [one for one in pods if not one.gates.get(GATE, True) and one.ready]
        unready = tuple(one for one in opened if not one.ready)
        notes = [f"the gate is open, and not Ready: {names_of(unready)}"] if unready else []
        if late:
            notes.append(f"the gate is closed, and Ready still (does the kubelet follow?): {names_of(late)}")
        if len(opened) == len(pods):
            return _Seen(view, pods, TrafficLook(state=TrafficState.READY, note="; ".join(notes)), unready)
        if opened or late:
            if opened:
                notes.append(
                    f"open: {names_of(opened)}, closed: {names_of([one for one in pods if one not in opened])}"
                )
            return _Seen(view, pods, TrafficLook(state=TrafficState.MIXED, note="; ".join(notes)), unready)
        routed, note = (
            ((), "")
            if self._slices is None
            else self._slices.routed(view.namespace, {one.uid for one in pods}, deadline)
        )
        if routed:
            return _Seen(view, pods, TrafficLook(state=TrafficState.MIXED, note="; ".join(routed)))
        return _Seen(view, pods, TrafficLook(state=TrafficState.STOPPED, note=note))
