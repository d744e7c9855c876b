"""A simulated cluster in virtual time with admission at work on it, and what its Jobs' pods say: records of real
H200s.

`StoreApi` asks the simulated API server's store without the network between: thousands of calls in a second.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import admitted
from kube_profile import PROFILE_TEXT
from kube_sim.clock import VirtualClock
from kube_sim.cluster import Cluster
from kube_sim.kubelet import Times
from kube_sim.problems import ApiProblem
from kube_sim.remote import LogWish
from kube_sim.store import Store
from rankmuster.adapters.kube.api import Conflict, Forbidden, Invalid, Kind, KubeError, NotThere, Object
from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_manifest import JOB_LABEL
from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.adapters.kube.job_words import message, result_of
from rankmuster.adapters.kube.nodes import node_view
from rankmuster.admission.plan import Taken
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission import in_pod
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.admission.work import AdmissionWork
from rankmuster.kube.crd.render import definitions
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.store.history import History

NAMESPACE = "rankmuster"
STARTUP = {"key": "rankmuster.dev/admission", "value": "pending", "effect": "NoSchedule"}
GOOD_RUN, SLOW_RUN = "ar_1.txt", "ar_2ch.txt"


class Crash(Exception):
    """The controller has ended here."""


class StoreApi:
    """An `Api` over the store. `before`: called with (verb, kind, name) before each call that writes; `after`: after
    it. What they raise is the caller's."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.cluster: Cluster | None = None
        self.calls = 0
        self.writes: list[tuple[str, str, str]] = []
        self.before: Callable[[str, str, str], None] = lambda *_: None
        self.after: Callable[[str, str, str], None] = lambda *_: None

    def get(self, kind: Kind, name: str, namespace: str | None, deadline: Deadline) -> Object:
        return self._asked(lambda: self.store.get(_key(kind), namespace, name))

    def list(
        self,
        kind: Kind,
        namespace: str | None,
        deadline: Deadline,
        *,
        labels: str | None = None,
        fields: str | None = None,
    ) -> tuple[Object, ...]:
        found = self._asked(lambda: self.store.list(_key(kind), namespace, labels=labels, fields=fields))
        return tuple(found)

    def create(self, kind: Kind, body: Mapping[str, Any], namespace: str | None, deadline: Deadline) -> Object:
        name = str(body["metadata"]["name"])
        return self._wrote("create", kind, name, lambda: self.store.create(dict(body)))

    def apply(self, *_: Any, **__: Any) -> Object:
        raise AssertionError("admission applies nothing")

    def patch(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        body: Any,
        deadline: Deadline,
        *,
        subresource: str | None = None,
        strategic: bool = False,
    ) -> Object:
        def call() -> Object:
            return self.store.patch(_key(kind), namespace, name, body, kind="merge", subresource=subresource)

        return self._wrote("patch", kind, f"{name}/{subresource}" if subresource else name, call)

    def delete(
        self,
        kind: Kind,
        name: str,
        namespace: str | None,
        deadline: Deadline,
        *,
        uid: str,
        foreground: bool = False,
        grace: int | None = None,
    ) -> None:
        self._wrote("delete", kind, name, lambda: self.store.delete(_key(kind), namespace, name, uid=uid))

    def log(
        self, name: str, namespace: str, deadline: Deadline, *, container: str | None = None, most_bytes: int = 4 << 20
    ) -> bytes:
        self._asked(lambda: self.store.get("pods", namespace, name))
        assert self.cluster is not None
        wish = LogWish(self.store.get("pods", namespace, name), container or "")
        return b"".join(self.cluster.kubelet.log(wish))[-most_bytes:]

    def execute(self, *_: Any, **__: Any) -> Any:
        raise AssertionError("admission runs nothing in containers")

    def _wrote(self, verb: str, kind: Kind, name: str, call: Callable[[], Any]) -> Any:
        self.before(verb, kind.plural, name)
        found = self._asked(call)
        self.writes.append((verb, kind.plural, name))
        self.after(verb, kind.plural, name)
        return found

    def _asked(self, call: Callable[[], Any]) -> Any:
        self.calls += 1
        try:
            return call()
        except ApiProblem as problem:
            made = {404: NotThere, 409: Conflict, 403: Forbidden, 400: Invalid, 422: Invalid}
            raise made.get(problem.status, KubeError)(problem.message, status=problem.status) from problem


def _key(kind: Kind) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


@cache
def taken(node: str) -> Taken:
    """One look at this node: the captured one with GPUs of its own, from within a pod."""
    path = admitted.node_path()
    assert isinstance(path.gpus, tuple)
    gpus = tuple(replace(gpu, uuid=f"GPU-{node}-{gpu.index}") for gpu in path.gpus)
    path = replace(path, gpus=gpus)
    return Taken(path, fingerprint_of(path, profile_key=admitted.PROFILE.key))


@cache
def alone_payload(node: str, runs: tuple[str, ...] = (GOOD_RUN,)) -> Payload:
    """What the Job on this node says: measured there, compared with nothing."""
    outcome = admitted.admission(
        [admitted.run_of(name) for name in runs],
        plan=admitted.Plan(admitted.PROFILE, runs=len(runs), retests=0),
        look=lambda: taken(node),
    )
    return in_pod.alone_payload(outcome, node, f"pod-on-{node}")[0]


def said(payload: Payload, run: float = 120.0, **changes: Any) -> Times:
    """A pod that says it after so many seconds. `changes`: of the summary."""
    log, summary = result_of(payload)
    text = message(replace(summary, **changes)).decode()
    return Times(run=run, message=text, log=f"some words before\n{log.decode()}and after\n")


class World:
    """`pods`: Job's pod -> how it goes; by default the node passes. `times`: what the log of the work said."""

    def __init__(
        self,
        folder: Path,
        *,
        history: bool = True,
        acting: bool = True,
        pods: Callable[[str, Object], Times] | None = None,
        **settings: Any,
    ) -> None:
        self.clock = VirtualClock(admitted.START + 1_000_000)
        self.store = Store(self.clock)
        self.store.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        for one in definitions():
            self.store.create(one)
        self.cluster = Cluster(self.store, self.clock)
        self.api = StoreApi(self.store)
        self.api.cluster = self.cluster
        self.log: list[str] = []
        self.history: History | None = None
        profile = folder / "profile.yaml"
        sizes = ", ".join(str(size) for size in admitted.PROFILE.steps[0].sizes)
        profile.write_text(PROFILE_TEXT.format(sizes=sizes))
        shape = settings.pop("job", {})
        self.settings = AdmissionSettings(job=JobShape(profile=str(profile), **shape), **settings)
        if history:
            place = folder / "history.db"
            admitted.fill(place)
            self.history = History.open(str(place))
        self.pods = pods or (lambda node, _: said(alone_payload(node)))
        self.cluster.kubelet.behave = self._behave
        self.acting = acting
        self.fingerprints: dict[str, Fingerprint] = {}
        self._feed: Callable[[], None] | None = None
        self.work = self.started()

    def close(self) -> None:
        if self.history is not None:
            self.history.close()

    def started(self, acting: bool | None = None) -> AdmissionWork:
        """The controller, anew: it knows nothing but what the API server tells."""
        if self._feed is not None:
            self._feed()
        work = AdmissionWork(
            self.api,
            self.settings,
            self.history,
            self.clock,
            self.clock,
            self.fingerprints.get,
            self.log.append,
            acting=self.acting if acting is None else acting,
            namespace=NAMESPACE,
            pause=lambda _: None,
        )
        for raw in self.store.list("nodes"):
            work.node_changed(node_view(raw))
        stops = [
            self.store.subscribe("nodes", lambda kind, raw: _told(kind, raw, work.node_changed, work.node_gone)),
            self.store.subscribe(
                "nodeadmissions.rankmuster.dev",
                lambda kind, raw: (
                    work.admission_gone(raw["metadata"]["name"]) if kind == "DELETED" else work.admission_changed(raw)
                ),
            ),
        ]
        self._feed = lambda: [stop() for stop in stops] and None  # type: ignore[func-returns-value]
        self.work = work
        return work

    def turns(self, until: Callable[[], Any], seconds: float = 7_200.0, every: float = 10.0) -> bool:
        """Turns of the controller as time goes; whether `until` holds."""
        end = self.clock() + seconds
        while self.clock() < end:
            self.cluster.settle()
            self.work.turn(1e9)
            self.cluster.settle()
            if until():
                return True
            self.cluster.run(every)
        return bool(until())

    def phases(self) -> dict[str, str]:
        """Node -> phase of its admission that is not outdated."""
        found = self.store.rows("nodeadmissions.rankmuster.dev")
        return {one["spec"]["node"]: phase(one) for one in found if phase(one) != "Outdated"}

    def out(self) -> set[str]:
        """Nodes that have the taint."""
        return {
            str(one["metadata"]["name"])
            for one in self.store.rows("nodes")
            if any(taint["key"] == STARTUP["key"] for taint in one["spec"].get("taints") or ())
        }

    def admissions(self, node: str) -> list[Object]:
        """Oldest first."""
        rows = self.store.rows("nodeadmissions.rankmuster.dev")
        found = [one for one in rows if one["spec"]["node"] == node]
        return sorted(found, key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))

    def now(self, node: str) -> Object:
        """Its current admission."""
        open_ = [one for one in self.admissions(node) if phase(one) != "Outdated"]
        assert len(open_) == 1, f"{node} has {len(open_)} admissions that are not outdated"
        return open_[0]

    def phase(self, node: str) -> str:
        return self.phases().get(node, "")

    def tainted(self, node: str) -> bool:
        return node in self.out()

    def jobs(self) -> list[Object]:
        return self.store.list("jobs.batch", NAMESPACE)

    def label(self, node: str, **labels: str) -> None:
        body = {"metadata": {"labels": {key.replace("__", "/"): value for key, value in labels.items()}}}
        self.store.patch("nodes", None, node, body, kind="merge")

    def driver(self, node: str, version: str) -> None:
        self.store.patch(
            "nodes",
            None,
            node,
            {"metadata": {"labels": {"nvidia.com/cuda.driver-version.full": version}}},
            kind="merge",
        )

    def spec(self, node: str, **fields: Any) -> None:
        """A person edits its admission."""
        name = self.now(node)["metadata"]["name"]
        self.store.patch("nodeadmissions.rankmuster.dev", None, name, {"spec": fields}, kind="merge")

    def _behave(self, pod: Object) -> Times:
        from kube_sim.kubelet import by_annotations

        if JOB_LABEL not in pod["metadata"].get("labels", {}):
            return by_annotations(pod)
        return self.pods(pod["spec"]["nodeName"], pod)


def phase(raw: Object) -> str:
    return str((raw.get("status") or {}).get("phase", "Pending"))


def condition(raw: Object, type_: str) -> Mapping[str, str]:
    found: Sequence[Mapping[str, str]] = (raw.get("status") or {}).get("conditions") or ()
    return next((one for one in found if one["type"] == type_), {})


def _told(kind: str, raw: Object, changed: Callable[[Any], None], gone: Callable[[str], None]) -> None:
    if kind == "DELETED":
        gone(raw["metadata"]["name"])
    else:
        changed(node_view(raw))


def old_world(folder: Path, **settings: Any) -> World:
    """With one node that is admitted already, so that later ones are new."""
    world = World(folder, **settings)
    world.cluster.node("old", gpus=4)
    assert world.turns(lambda: world.phase("old") == "Provisional")
    world.cluster.run(60)
    return world
