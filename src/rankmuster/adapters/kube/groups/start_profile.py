"""Variables for one start, in a ConfigMap that the pods of the workload read when their containers are made.

It has to be there before the pods are: it is written before the old ones are deleted, and emptied afterwards. All pods
of the workload read it, so a group that is made again for another reason meanwhile has them too; that costs log lines.
A variable that stands in the container's own `env` wins, as Kubernetes has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rankmuster.adapters.kube.api import CONFIG_MAPS, Api, KubeError
from rankmuster.adapters.kube.naming import profile_config_map
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, StartWish
from rankmuster.model.kube import DOMAIN, FIELD_MANAGER, InstanceView
from rankmuster.report.inert import plain

OPERATION = f"{DOMAIN}/operation"
"""Annotation of the ConfigMap: which action has written it."""

WRITE_SECONDS = 3.0
"""Of a deadline: a profile is no reason to leave GPUs waiting."""


class StartProfile:
    """`expected`: how the next start is wished, as far as it is known when the old one is ended. `variables`: of a
    suspect, the incident profile's. Needs patch of that ConfigMap."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        workload: str,
        *,
        expected: Callable[[], StartWish],
        variables: Callable[[str], Mapping[str, str]],
    ) -> None:
        self.expected = expected
        self._api, self._namespace, self._variables = api, namespace, variables
        self._name = profile_config_map(workload)

    def wanted(self, wish: StartWish) -> bool:
        return bool(wish.environment) or wish.suspect is not None

    def prepare(self, operation: str, deadline: Deadline) -> str:
        """Writes what is expected; what came of it, in words. Recovery goes on without it."""
        try:
            wish = self.expected()
            if not self.wanted(wish):
                return ""
            values = self._values(wish)
        except (
            Exception
        ) as error:  # whoever knows it (a journal, a table of profiles) may be down: the GPUs do not wait
            return f"the start will be without variables, since which is not known: {plain(error, 300)}"
        try:
            self._apply(values, operation, deadline.within(WRITE_SECONDS))
        except KubeError as error:
            return f"the start will be without its {len(values)} variables: {plain(error, 300)}"
        return f"ConfigMap {self._namespace}/{self._name} has {len(values)} variables for the next start"

    def taken(self, view: InstanceView) -> str:
        """Whether the new pods can have it."""
        return (
            f"its containers were made while ConfigMap {self._namespace}/{self._name} was there; they have its "
            f"variables where the template of {view.workload} names it (rankmuster kube inject)"
        )

    def empty(self, deadline: Deadline) -> Answer:
        """No variables any more."""
        try:
            self._apply({}, "", deadline)
        except KubeError as error:
            note = f"the variables of one start stay in ConfigMap {self._namespace}/{self._name}: {plain(error, 400)}"
            return Answer(ending=Ending.TIMED_OUT if error.late else Ending.FAILED, note=note)
        return Answer(ending=Ending.DONE, note=f"ConfigMap {self._namespace}/{self._name} is empty")

    def would(self, wish: StartWish) -> list[str]:
        if not self.wanted(wish):
            return []
        path = CONFIG_MAPS.path(self._namespace, self._name)
        return [f"PATCH {path} (apply) with {', '.join(sorted(self._values(wish)))}; emptied afterwards"]

    def _values(self, wish: StartWish) -> dict[str, str]:
        of_suspect = self._variables(wish.suspect) if wish.suspect is not None else {}
        return {**of_suspect, **wish.environment}

    def _apply(self, values: Mapping[str, str], operation: str, deadline: Deadline) -> None:
        annotations = {OPERATION: operation} if operation else {}
        body = {
            "metadata": {
                "namespace": self._namespace,
                "name": self._name,
                "labels": {"app.kubernetes.io/managed-by": FIELD_MANAGER},
                "annotations": annotations,
            },
            "data": dict(values),
        }
        self._api.apply(CONFIG_MAPS, body, deadline)
