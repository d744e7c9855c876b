"""What the controller works with and does not make itself: API server, journal, clocks, actuators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rankmuster.adapters.kube.api import Api
from rankmuster.collect.deadline import Clock
from rankmuster.incident.journal import Journal
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller.fleet import Known
from rankmuster.kube.controller.states import Asks
from rankmuster.model.kube import NodeView


class Admits(Protocol):
    """What is used of `kube.admission.work.AdmissionWork`."""

    def node_changed(self, view: NodeView) -> None: ...

    def node_gone(self, name: str) -> None: ...

    def admission_changed(self, raw: Mapping[str, Any]) -> None: ...

    def admission_gone(self, name: str) -> None: ...

    def turn(self, seconds: float = ...) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Outside:
    """`tools`: actuators of an instance. `holder`: this controller's name in the journal, `host`: of its pod.
    `uploaded(incident)`: where a copy of its evidence went. `node_labels`: keys of labels that are kept of a node
    besides those that are facts. `fingerprints`: asks nodes' agents that are due."""

    api: Api
    journal: Journal
    asks: Asks
    tools: Callable[[Known], Tools]
    admission: Admits | None = None
    clock: Clock
    unix_now: Callable[[], float]
    say: Callable[[str], None]
    holder: str
    host: str
    uploaded: Callable[[str], str | None] = field(default=lambda _: None)
    node_labels: tuple[str, ...] = ()
    fingerprints: Callable[[], object] = field(default=lambda: None)
