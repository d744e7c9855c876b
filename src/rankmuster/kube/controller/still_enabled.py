"""Whether a policy still wants what an incident is about to do, asked of the API server when it is done.

A runbook may wait for an hour between its beginning and its first delete. What people have written into the policy
meanwhile counts: `paused`, a role taken out of `enable`, a deletion, a second policy for the same workload. Traffic is
given back all the same, fences are lifted, and what was ended is waited for.
"""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.adapters.kube.api import POLICIES, Api, KubeError, NotThere
from rankmuster.adapters.kube.may_act import Objection
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.policies import policy_view
from rankmuster.model.incident import Answer, Ending
from rankmuster.report.inert import plain


class StillEnabled:
    """`newer()`: why definitions of a newer version than ours are there; empty where they are not."""

    def __init__(self, api: Api, fleet: Fleet, newer: Callable[[], str]) -> None:
        self._api, self._fleet, self._newer = api, fleet, newer

    def of(self, known: Known, role: str) -> Objection:
        """For what acts in that role on an instance."""
        return lambda deadline: self._objection(known, role, deadline)

    def _objection(self, known: Known, role: str, deadline: Deadline) -> Answer | None:
        name, namespace = known.policy.name, known.policy.namespace
        others = self._fleet.contested(namespace).get(known.key)
        if others:
            return _refused(f"several policies match {known.key} by now: {', '.join(others)}")
        newer = self._newer()
        if newer:
            return _refused(newer)
        try:
            view = policy_view(self._api.get(POLICIES, name, namespace, deadline.within(deadline.remaining() / 2)))
        except NotThere:
            return _refused(f"the policy {namespace}/{name} is gone")
        except KubeError as error:
            ending = Ending.TIMED_OUT if error.late else Ending.FAILED
            note = f"nothing was done, since whether the policy still enables it is not known: {plain(error, 400)}"
            return Answer(ending=ending, note=note, data={"sent": False})
        if view is None or view.spec is None:
            problem = view.problem if view is not None else "it has no name"
            return _refused(f"the policy {namespace}/{name} cannot be used by now: {problem}")
        if view.deleting:
            return _refused(f"the policy {namespace}/{name} is being deleted")
        if view.spec.paused:
            return _refused(f"the policy {namespace}/{name} is paused by now (spec.paused)")
        if role not in view.spec.enable:
            return _refused(f"the policy {namespace}/{name} does not enable {role} any more")
        return None


def _refused(why: str) -> Answer:
    note = f"nothing was done: {why}"
    return Answer(ending=Ending.REFUSED, note=plain(note, 1_000), data={"sent": False})
