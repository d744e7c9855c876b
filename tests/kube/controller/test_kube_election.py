"""Of several controllers one works, and two never believe to at once; hosts' clocks do not matter."""

from __future__ import annotations

from typing import Any

from kube_sim.store import Store
from rankmuster.adapters.kube.api import LEASES, Conflict, KubeError, NotThere
from rankmuster.kube.controller.election import Election, Observed, body, may_take, observe
from rankmuster.kube.controller.settings import Election as Settings


class Cluster:
    """Just the Lease, by the simulator's store; can be away."""

    def __init__(self, store: Store) -> None:
        self.store, self.away = store, False

    def _call(self, work: Any) -> Any:
        if self.away:
            raise KubeError("no answer")
        from kube_sim.problems import ApiProblem

        try:
            return work()
        except ApiProblem as problem:
            kind = {404: NotThere, 409: Conflict}.get(problem.status, KubeError)
            raise kind(str(problem), status=problem.status) from problem

    def get(self, kind: Any, name: str, namespace: str | None, deadline: Any) -> Any:
        return self._call(lambda: self.store.get("leases.coordination.k8s.io", namespace, name))

    def create(self, kind: Any, wanted: Any, namespace: str | None, deadline: Any) -> Any:
        return self._call(lambda: self.store.create(wanted))

    def patch(self, kind: Any, name: str, namespace: str | None, wanted: Any, deadline: Any) -> Any:
        return self._call(lambda: self.store.patch("leases.coordination.k8s.io", namespace, name, wanted, kind="merge"))


class Rig:
    """`now`: the true time; each host's own clock has an offset of its own."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.store = Store(clock=lambda: self.now)
        self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "system"}})
        self.said: list[str] = []

    def candidate(self, name: str, skew: float = 0.0) -> tuple[Election, Cluster]:
        cluster = Cluster(self.store)
        one = Election(
            cluster,  # type: ignore[arg-type]
            Settings(),
            "system",
            name,
            clock=lambda: self.now,
            unix_now=lambda: self.now + skew,
            wait=lambda _: True,
            say=self.said.append,
        )
        return one, cluster


def test_the_second_waits_and_follows_when_the_first_is_gone() -> None:
    rig = Rig()
    first, _ = rig.candidate("a", skew=3_600.0)
    second, _ = rig.candidate("b", skew=-3_600.0)
    assert first.lead()
    assert not second.lead()
    assert rig.said[-1] == "a leads; waiting"
    rig.now += 14.0
    assert not second.lead()
    rig.now += 2.0  # the lease has not changed for longer than it lasts
    assert second.lead()
    lease = rig.store.get("leases.coordination.k8s.io", "system", "rankmuster-controller")
    assert lease["spec"]["holderIdentity"] == "b"
    assert lease["spec"]["leaseTransitions"] == 2


def test_a_leader_that_cannot_renew_ends_before_another_may_begin() -> None:
    rig = Rig()
    first, cluster = rig.candidate("a")
    second, _ = rig.candidate("b")
    assert first.lead()
    assert not second.lead()
    cluster.away = True
    ended = taken = None
    waits: list[float] = []
    for _ in range(40):
        rig.now += 0.5
        first._round()
        if ended is None and not first.leads:
            ended = rig.now
        if taken is None and second.lead():
            taken = rig.now
        waits.append(rig.now)
    assert ended is not None
    assert taken is not None
    assert ended < taken


def test_a_leader_that_is_told_to_end_gives_the_lease_back() -> None:
    rig = Rig()
    first, _ = rig.candidate("a")
    assert first.lead()
    first.keep()
    second, _ = rig.candidate("b")
    assert second.lead()


def test_who_was_slower_reads_again() -> None:
    rig = Rig()
    first, _ = rig.candidate("a")
    assert first.lead()
    stale = observe(Observed(), rig.store.get("leases.coordination.k8s.io", "system", "rankmuster-controller"), rig.now)
    rig.now += 1
    first._round()
    second, _ = rig.candidate("b")
    second._seen = stale
    rig.now += 20
    second._read = lambda deadline: {  # type: ignore[method-assign,assignment]
        "metadata": {"resourceVersion": stale.version},
        "spec": {"holderIdentity": "a", "renewTime": stale.renewed, "leaseDurationSeconds": 15},
    }
    assert not second._round()  # its patch is bound to the version that it saw
    assert (
        rig.store.get("leases.coordination.k8s.io", "system", "rankmuster-controller")["spec"]["holderIdentity"] == "a"
    )


def test_what_is_odd_in_a_lease_is_somebodys() -> None:
    seen = observe(Observed(), {"metadata": {}, "spec": {"holderIdentity": 5, "leaseDurationSeconds": "x"}}, 10.0)
    assert not may_take(seen, "us", 11.0)
    assert may_take(observe(Observed(), {"spec": None}, 10.0), "us", 11.0)
    made = body(Settings(), "system", seen, "us", 0.0)
    assert LEASES.kind == made["kind"]
