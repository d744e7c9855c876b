"""Whatever is done to the store: versions grow, and who watches sees what who lists sees."""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kube_sim.history import Change
from kube_sim.made import pod
from kube_sim.problems import ApiProblem
from kube_sim.store import Store

NAMES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["x", "y"]), st.sampled_from(["1", "2"]), max_size=2)
FINALIZERS = st.lists(st.sampled_from(["example.dev/a", "example.dev/b"]), unique=True, max_size=2)
MANAGERS = st.sampled_from(["one", "two"])


def told(state: dict[str, Any], changes: list[Change]) -> dict[str, Any]:
    """The state after these events, as a client keeps it."""
    for change in changes:
        name = change.after["metadata"]["name"]
        assert (change.kind == "ADDED") == (name not in state)
        if change.kind == "DELETED":
            del state[name]
        else:
            state[name] = change.after
    return state


class Machine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000_000.0
        self.store = Store(clock=lambda: self.now)
        self.heard: list[Change] = []
        self.store.follow("pods", self.heard.append)
        self.moments: list[tuple[int, dict[str, Any]]] = []

    def listed(self) -> dict[str, Any]:
        return {one["metadata"]["name"]: one for one in self.store.rows("pods")}

    def attempt(self, *words: Any, **more: Any) -> None:
        version, before = self.store.resource_version, self.listed()
        try:
            words[0](*words[1:], **more)
        except ApiProblem:
            assert (self.store.resource_version, self.listed()) == (version, before)

    @rule(name=NAMES, labels=LABELS, finalizers=FINALIZERS)
    def create(self, name: str, labels: Any, finalizers: Any) -> None:
        self.attempt(self.store.create, pod(name, labels=labels, finalizers=finalizers))

    @rule(name=NAMES, labels=LABELS)
    def merge(self, name: str, labels: Any) -> None:
        self.attempt(self.store.patch, "pods", "default", name, {"metadata": {"labels": labels}})

    @rule(name=NAMES, labels=LABELS, manager=MANAGERS, force=st.booleans())
    def apply(self, name: str, labels: Any, manager: str, force: bool) -> None:
        body = pod(name, labels=labels)
        self.attempt(self.store.patch, "pods", "default", name, body, kind="apply", manager=manager, force=force)

    @rule(name=NAMES, finalizers=FINALIZERS)
    def finalize(self, name: str, finalizers: Any) -> None:
        self.attempt(self.store.patch, "pods", "default", name, {"metadata": {"finalizers": finalizers}})

    @rule(name=NAMES, grace=st.sampled_from([None, 0, 5]), propagation=st.sampled_from(["Background", "Foreground"]))
    def delete(self, name: str, grace: int | None, propagation: str) -> None:
        self.attempt(self.store.delete, "pods", "default", name, grace=grace, propagation=propagation)

    @rule(seconds=st.sampled_from([1, 60]))
    def wait(self, seconds: int) -> None:
        self.now += seconds

    @rule()
    def look(self) -> None:
        self.moments.append((self.store.resource_version, self.listed()))

    @rule()
    def compact(self) -> None:
        self.store.compact()
        self.moments = [one for one in self.moments if one[0] >= self.store.history.oldest]

    @invariant()
    def versions_grow(self) -> None:
        versions = [change.version for change in self.heard]
        assert versions == sorted(set(versions))
        assert all(change.after["metadata"]["resourceVersion"] == str(change.version) for change in self.heard)

    @invariant()
    def watching_is_listing(self) -> None:
        now = self.listed()
        assert told({}, self.heard) == now
        for version, then in self.moments:
            newer = [one for one in self.store.history.since(version) if one.place.key == "pods"]
            assert told(dict(then), newer) == now
            assert {one["metadata"]["name"]: one for one in self.store.rows("pods", at=version)} == then

    @invariant()
    def nothing_stays_that_nothing_holds(self) -> None:
        for one in self.listed().values():
            metadata = one["metadata"]
            if "deletionTimestamp" in metadata:
                assert metadata.get("finalizers") or metadata["deletionGracePeriodSeconds"]


TestStore = Machine.TestCase
TestStore.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
