"""What a fleet allows: how many nodes that serve may be kept out, how many Jobs run, and which nodes are known good.
Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping

from rankmuster.kube.admission import say
from rankmuster.kube.admission.seen import Admission, Permit, tainted
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.crd.admission import Phase
from rankmuster.model.kube import NodeView

MINUTE = 60.0

PRODUCT = "nvidia.com/gpu.product"


class Fleet:
    """One turn's view. `admissions`: node -> its current one. What is granted within the turn counts at once."""

    def __init__(
        self,
        nodes: Mapping[str, NodeView],
        admissions: Mapping[str, Admission],
        settings: AdmissionSettings,
        now: float,
    ) -> None:
        self._nodes, self._admissions, self._settings = nodes, admissions, settings
        serving = [one for one in admissions.values() if one.node in nodes and (one.served or one.admitted)]
        self.most_out = max(int(settings.share * len(serving)), 1)
        self.out = sum(not one.admitted and tainted(nodes[one.node]) for one in serving)
        self.running = sum(one.phase is Phase.TESTING and _has_job(one) for one in admissions.values())
        self.started = sum(_started_after(one, now - MINUTE) for one in admissions.values())

    def may_taint(self, admission: Admission) -> Permit:
        """A node that never served may always be kept out."""
        if not admission.served or self.out < self.most_out:
            return Permit()
        words = (
            f"it has changed ({admission.trigger}) and serves on untested: {self.most_out} of the nodes that serve "
            f"are out already, which is the share that may be (share: {self._settings.share:g})"
        )
        return Permit(allowed=False, why=words)

    def may_start(self) -> Permit:
        """Whether one more Job may be created now."""
        if self.running >= self._settings.at_once:
            return Permit(allowed=False, why=f"{self._settings.at_once} Jobs run, which is what may at once")
        if self.started >= self._settings.per_minute:
            words = f"{self._settings.per_minute} Jobs were started within a minute, which is what may be"
            return Permit(allowed=False, why=words)
        return Permit()

    def tainted_one(self, admission: Admission) -> None:
        """A taint was set within this turn."""
        self.out += admission.served

    def started_one(self) -> None:
        """A Job was created within this turn."""
        self.running += 1
        self.started += 1

    def good(self, node: NodeView) -> tuple[str, ...]:
        """Known good nodes of its kind, the best to ask first: those of the settings, then those that passed, in an
        order of this node's own, so that not all ask the same."""
        named = [one for one in self._settings.good if one in self._nodes and one != node.name]
        taken = {one.status.with_node for one in self._admissions.values() if one.status.pair_job is not None}
        passed = [
            one.node
            for one in self._admissions.values()
            if one.phase is Phase.PASSED and one.node != node.name and one.node not in named and self._alike(one, node)
        ]
        ordered = [*named, *sorted(passed, key=lambda one: _spread(node.uid, one))]
        return tuple(one for one in ordered if one not in taken)

    def _alike(self, admission: Admission, node: NodeView) -> bool:
        other = self._nodes.get(admission.node)
        if other is None or other.uid != admission.node_uid or tainted(other):
            return False
        ready = other.ready and not other.unschedulable and not other.deleting
        return ready and other.gpus == node.gpus and other.facts.get(PRODUCT) == node.facts.get(PRODUCT)


def current(admissions: Iterable[Admission]) -> dict[str, Admission]:
    """Node -> its youngest admission that is not outdated: the one that no other follows; times have whole seconds."""
    found: dict[str, Admission] = {}
    listed = tuple(admissions)
    followed = {one.after for one in listed}
    for one in listed:
        if one.phase is Phase.OUTDATED or one.uid in followed:
            continue
        known = found.get(one.node)
        if known is None or (known.created, known.name) < (one.created, one.name):
            found[one.node] = one
    return found


def _has_job(admission: Admission) -> bool:
    """Whether a Job of it may run now: between alone and pair there is none."""
    return admission.status.decision is None or admission.status.pair_job is not None


def _started_after(admission: Admission, at: float) -> bool:
    return say.seconds(admission.status.started_at, 0.0) > at


def _spread(uid: str, name: str) -> str:
    return hashlib.sha256(f"{uid}\n{name}".encode()).hexdigest()


def in_order(admissions: Iterable[Admission], last: str) -> list[Admission]:
    """Those that are not outdated: Jobs that run first; the others go on after the name where the last turn ended."""
    open_ = [one for one in admissions if one.phase is not Phase.OUTDATED]
    running = [one for one in open_ if one.phase is Phase.TESTING]
    rest = sorted((one for one in open_ if one.phase is not Phase.TESTING), key=lambda one: one.name)
    return [*running, *(one for one in rest if one.name > last), *(one for one in rest if one.name <= last)]


def beyond(admissions: Iterable[Admission], keep: int) -> list[Admission]:
    """Outdated ones beyond the `keep` youngest of their node."""
    by_node: dict[str, list[Admission]] = {}
    for one in admissions:
        if one.phase is Phase.OUTDATED:
            by_node.setdefault(one.node, []).append(one)
    return [one for old in by_node.values() for one in sorted(old, key=lambda one: one.created)[:-keep]]
