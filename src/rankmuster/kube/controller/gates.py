"""Opens the readiness gate of pods that nobody has said anything about: new ones, of instances without an incident.

A gate that is absent keeps a pod out of its Service for ever. One that stands at False was closed by a runbook, and is
only opened again by one, or by people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from rankmuster.adapters.kube.api import Api, Conflict, KubeError, NotThere
from rankmuster.adapters.kube.gate_condition import open_gate
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.kube.controller.fleet import Known
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.model.kube import GATE, PodView

CALL_SECONDS = 5.0
MOST_A_TURN = 50
"""Pods of one turn: a fleet that is installed anew is opened within minutes, and the API server has others to serve."""

MOST_TOLD = 1_000

AGAIN_SECONDS = 2.0
"""After an attempt that failed, or met a pod that had changed."""

TOLD_SECONDS = 30.0
"""After one that did not: the watch tells of it within seconds."""


class Gates:
    """`busy()`: instances with an open incident. `held()`: UIDs of pods that stand in for one of them under another
    name: their gate is the incident's, too. `kept_out(instance)`: why its new pods get no traffic, None where they may.
    """

    def __init__(
        self,
        api: Api,
        settings: ControllerSettings,
        busy: Callable[[], frozenset[str]],
        held: Callable[[], frozenset[str]],
        kept_out: Callable[[Known], str | None],
        *,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        self._api, self._settings, self._clock, self._say = api, settings, clock, say
        self._busy, self._held, self._kept_out = busy, held, kept_out
        self._done: dict[str, float] = {}
        self._told: set[str] = set()

    def turn(self, known: Iterable[Known]) -> int:
        """How many were opened."""
        if self._settings.dry_run or "traffic" not in self._settings.enable:
            return 0
        busy, held, opened = self._busy(), self._held(), 0
        waiting = [
            (one, pod)
            for one in known
            if one.name not in busy and self._ours(one)  # those would take the turns of all others
            for pod in one.view.pods
            if self._waits(pod) and pod.uid not in held
        ]
        kept_out: dict[str, str | None] = {}
        for one, pod in waiting[:MOST_A_TURN]:
            self._done[pod.uid] = self._clock() + AGAIN_SECONDS
            if one.name not in kept_out:
                kept_out[one.name] = self._kept_out(one)
            incident = kept_out[one.name]
            if incident is not None:
                self._done[pod.uid] = self._clock() + TOLD_SECONDS
                self._tell(
                    f"{pod.uid}",
                    f"the gate of pod {pod.namespace}/{pod.name} stays closed: incident {incident} "
                    "started it and did not see it serve; `rankmuster incident resume`, or a new rollout",
                )
                continue
            try:
                opened += open_gate(self._api, pod, Deadline.after(CALL_SECONDS, self._clock))
                self._done[pod.uid] = self._clock() + TOLD_SECONDS
            except (NotThere, Conflict):
                continue  # it is gone, or has changed: the watch tells
            except KubeError as error:
                self._tell(
                    one.policy.name,
                    f"the readiness gate of pod {pod.namespace}/{pod.name} could not be opened: {error}",
                )
        now = self._clock()
        self._done = {uid: until for uid, until in self._done.items() if until > now}
        return opened

    def _tell(self, of: str, said: str) -> None:
        """Once."""
        if of not in self._told and len(self._told) < MOST_TOLD:
            self._told.add(of)
            self._say(said)

    def _ours(self, one: Known) -> bool:
        spec = one.policy.spec
        return spec is not None and spec.traffic.readiness_gate and "traffic" in spec.enable and not one.view.problem

    def _waits(self, pod: PodView) -> bool:
        absent = GATE in pod.gates and pod.gates[GATE] is None
        return absent and not pod.deleting and self._done.get(pod.uid, 0.0) <= self._clock()
