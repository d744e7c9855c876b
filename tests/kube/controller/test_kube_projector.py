"""Resources of incidents against an API server: whose words count, and what a watch that missed something costs."""

from __future__ import annotations

from typing import Any

from kube_rig import INCIDENTS, definitions
from kube_sim.problems import ApiProblem
from kube_sim.store import Store
from rankmuster.adapters.kube.api import NotThere
from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.kube.controller.projector import OPEN_SECONDS, POLICY_LABEL, Projector
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Event, EventKind, OpenedBy, Opening, Step

OPENING = Opening(
    instance="prod.llm.0", incarnation="uid-1", by=OpenedBy.STOPPED, progress=Progress.STOPPED, at=1_000.0, reason="x"
)
WORD = {"boundary": "process_group", "by": "eve", "reason": "go"}
LONG = "a" * 62 + "-" + "b" * 100


class Cluster:
    """One of three calls."""

    def __init__(self) -> None:
        self.store = Store()
        for one in definitions():
            self.store.create(one)
        for name in ("prod", "other"):
            self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})

    def get(self, kind: Any, name: str, namespace: str, deadline: Any) -> Any:
        try:
            return self.store.get(INCIDENTS, namespace, name)
        except ApiProblem as error:
            raise NotThere(str(error)) from error

    def create(self, kind: Any, body: Any, namespace: str, deadline: Any) -> Any:
        return self.store.create(body)

    def apply(self, kind: Any, body: Any, deadline: Any, **more: Any) -> Any:
        name = body["metadata"]["name"]
        self.get(kind, name, body["metadata"]["namespace"], deadline)
        return self.store.patch(
            INCIDENTS, body["metadata"]["namespace"], name, body, kind="apply", manager="us", **more
        )


class Rig:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.cluster = Cluster()
        self.journal = MemoryJournal(lambda: self.now)
        self.incident, _ = self.journal.open_incident(OPENING, "us")
        self.lease = self.journal.take_lease("prod.llm.0", "us", 1e9)
        steps = [{"step": "approve", "after": [], "seconds": 900.0, "needed": False}]
        self.write(EventKind.PLANNED, data={"steps": steps, "total_seconds": 700.0})
        self.write(EventKind.STEP_BEGUN, step=Step.APPROVE, data={"deadline_at": self.now + 900})
        self.place: Any = ("prod", "LeaderWorkerSet/llm", LONG, [])
        self.projector = self.anew()
        self.turn()

    def anew(self) -> Projector:
        return Projector(
            self.cluster,  # type: ignore[arg-type]
            self.journal,
            lambda _: self.place,
            clock=lambda: self.now,
            unix_now=lambda: self.now,
            say=lambda _: None,
        )

    def write(self, kind: EventKind, **more: Any) -> None:
        assert self.lease is not None
        self.journal.append(self.incident, self.lease, Event(kind=kind, at=self.now, **more))

    def turn(self) -> None:
        self.projector.opened([self.incident])
        self.now += OPEN_SECONDS
        assert self.projector.turn()

    def resource(self, namespace: str = "prod") -> Any:
        (one,) = self.cluster.store.list(INCIDENTS, namespace)
        return one

    def approve(self, namespace: str) -> None:
        name = self.resource(namespace)["metadata"]["name"]
        word = {"spec": {"approve": WORD}}
        self.cluster.store.patch(INCIDENTS, namespace, name, word, kind="merge", manager="kubectl")

    def approved(self) -> bool:
        return any(one.kind is EventKind.APPROVED for one in self.journal.events(self.incident))


def test_a_copy_in_another_namespace_is_nobodys_word() -> None:
    rig = Rig()
    ours = rig.resource()
    assert ours["metadata"]["labels"][POLICY_LABEL] == "a" * 62
    copy = {**ours, "metadata": {"name": ours["metadata"]["name"], "namespace": "other"}}
    for name, namespace in ((ours["metadata"]["name"], "other"), ("mine", "prod")):
        raw = {**copy, "metadata": {"name": name, "namespace": namespace, "generation": 9}}
        rig.projector.object({**raw, "spec": {**ours["spec"], "approve": WORD}, "status": ours["status"]})
        rig.turn()
        assert not rig.approved()


def test_a_word_that_the_watch_missed_is_read() -> None:
    rig = Rig()
    rig.approve("prod")
    rig.turn()
    assert rig.approved()


def test_a_resource_that_is_gone_without_a_word_is_made_anew() -> None:
    rig = Rig()
    rig.cluster.store.delete(INCIDENTS, "prod", rig.resource()["metadata"]["name"])
    rig.write(EventKind.NOTED, note="more")
    rig.turn()
    assert rig.resource()["status"]["phase"] == "Open"


def test_what_a_controller_left_open_is_closed_by_the_next_though_nobody_knows_the_instance() -> None:
    rig = Rig()
    rig.write(EventKind.CLOSED, data={"outcome": "aborted"})
    rig.place, rig.projector = None, rig.anew()
    rig.turn()
    assert rig.resource()["status"]["phase"] == "Closed"
    rig.cluster.store.delete(INCIDENTS, "prod", rig.resource()["metadata"]["name"])
    rig.projector = rig.anew()
    rig.turn()
    assert rig.cluster.store.list(INCIDENTS, "prod") == []
