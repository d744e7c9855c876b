"""Suspect nodes are tested again by Jobs, as new ones are: all of them alone at once, then each with a good node, one
after the other, since the good one has its GPUs once.

A Job's name is made of the operation and the node: after a crash the same call finds the same Jobs. What is still
there when the time is over is deleted, bound to its UID.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rankmuster.adapters.kube.api import NODES, Api, KubeError, NotThere
from rankmuster.adapters.kube.fields import whole
from rankmuster.adapters.kube.job_keep import ensure, remove
from rankmuster.adapters.kube.job_look import Failing, JobLook, JobState, Payload
from rankmuster.adapters.kube.job_manifest import JobOrder, work_seconds
from rankmuster.adapters.kube.job_record import record_of
from rankmuster.adapters.kube.job_seen import look_at_job
from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.adapters.kube.job_words import NotSaid
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import NodeRetest, RetestEnding
from rankmuster.model.kube import FENCE_TAINT
from rankmuster.report.inert import plain

POLL_SECONDS = 3.0
CALL_SECONDS = 10.0

CLEAN_SECONDS = 5.0
"""Of the deadline, kept to delete what has not ended."""

ALONE_SHARE = 0.6
"""Of the time there is, where pairs are measured after it."""

LEAST_SECONDS = 20.0
"""A pod does not start, measure and end in less."""

CORDON = "node.kubernetes.io/unschedulable"

_ENDINGS = {
    "pass": RetestEnding.PASS,
    "fail": RetestEnding.FAIL,
    "provisional": RetestEnding.PROVISIONAL,
    "error": RetestEnding.ERROR,
}


@dataclass(frozen=True, slots=True)
class Judged:
    """`decision`: as a record has it (`pass`...). `record`: where it can be found."""

    decision: str
    reason: str
    record: str | None = None


JudgeAlone = Callable[[Payload, str], Judged]
"""Of what the pod on a node said. Raises NotSaid."""

JudgePair = Callable[[Mapping[str, Payload], str, str], Judged]
"""Of what the pods on a node and on a good one said. Raises NotSaid."""


class JobRetest:
    """A `Retest` of `incident.actuators`. `image`, `namespace`: where the shape leaves them open. `nodes`: what a host
    is called in evidence -> its node. `judge`: by the fleet's history; None: what the record says by itself, which
    knows no history. `judge_pair` None: no pairs are measured."""

    def __init__(
        self,
        api: Api,
        shape: JobShape,
        nodes: Mapping[str, str] | None = None,
        *,
        image: str,
        namespace: str,
        name: str = "job",
        judge: JudgeAlone | None = None,
        judge_pair: JudgePair | None = None,
        sleep: Callable[[float], None] = time.sleep,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._api, self._shape, self._nodes = api, shape, dict(nodes or {})
        self._image, self._namespace = shape.image or image, shape.namespace or namespace
        self._judge, self._judge_pair = judge or _by_itself, judge_pair
        self._sleep, self._wall = sleep, wall

    def test(
        self, nodes: tuple[str, ...], good: str | None, operation: str, deadline: Deadline, *, short: bool
    ) -> tuple[NodeRetest, ...]:
        """One result a node, in order."""
        within = deadline.before(CLEAN_SECONDS)
        known_good = None if good is None else self._nodes.get(good, good)
        pairing = self._judge_pair is not None and known_good is not None and not short
        until = within.before(within.remaining() * (1 - ALONE_SHARE)) if pairing else within
        orders = {one: self._order((self._nodes.get(one, one),), operation, until, short) for one in nodes}
        results = self._all(orders, until, deadline)
        if pairing and known_good is not None:
            results = self._with_good(results, known_good, operation, within, deadline)
        return tuple(results[one] for one in nodes)

    def would(self, nodes: tuple[str, ...], good: str | None, *, short: bool) -> tuple[str, ...]:
        """What would be created."""
        profile = self._shape.short_profile if short else self._shape.profile
        on = [self._nodes.get(one, one) for one in nodes]
        lines = [f"create a Job in {self._namespace} on node {node}: {self._image}, profile {profile}" for node in on]
        if good is not None and self._judge_pair is not None and not short:
            other = self._nodes.get(good, good)
            lines += [f"create a Job in {self._namespace} on nodes {node} and {other}" for node in on]
        return tuple(lines)

    def _order(self, nodes: tuple[str, ...], operation: str, until: Deadline, short: bool) -> JobOrder:
        digest = hashlib.sha256("\n".join((operation, *nodes)).encode()).hexdigest()[:10]
        named = re.sub(r"[^a-z0-9]+", "-", nodes[0].lower())[:24].strip("-") or "node"
        order = JobOrder(
            name=f"retest-{named}-{digest}",
            namespace=self._namespace,
            image=self._image,
            nodes=nodes,
            gpus=0,
            belongs_to=operation,
            tolerates=(FENCE_TAINT, CORDON),
            short=short,
        )
        return replace(order, seconds=min(work_seconds(order, self._shape), max(until.remaining(), 1.0)))

    def _all(self, orders: Mapping[str, JobOrder], until: Deadline, deadline: Deadline) -> dict[str, NodeRetest]:
        """All at once: created, looked at until each has ended, and deleted where one has not."""
        results: dict[str, NodeRetest] = {}
        looks: dict[str, JobLook] = {}
        if until.remaining() < LEAST_SECONDS:
            note = f"no Job was created: {until.remaining():.0f} s are left, and one takes {LEAST_SECONDS:.0f}"
            return {one: _error(one, note) for one in orders}
        for one, order in orders.items():
            problem = self._create(order, until)
            if problem is not None:
                results[one] = _error(one, problem)
        while len(results) < len(orders):
            for one, order in orders.items():
                if one in results:
                    continue
                call = deadline.within(CALL_SECONDS)
                look = look_at_job(self._api, order.name, self._namespace, order.belongs_to, order.nodes, call)
                looks[one] = look
                if look.state not in (JobState.UNKNOWN, JobState.WAITING, JobState.RUNNING):
                    results[one] = self._result(one, order, look)
            if len(results) == len(orders):
                break
            if until.passed:
                for one in orders.keys() - results.keys():
                    results[one] = self._late(one, orders[one], looks.get(one), deadline)
                break
            self._sleep(min(POLL_SECONDS, max(until.remaining(), 0.05)))
        return results

    def _create(self, order: JobOrder, until: Deadline) -> str | None:
        """Why there is no Job; None where there is."""
        call = until.within(CALL_SECONDS)
        try:
            counts = [
                whole(self._node(node, call), "status", "allocatable", self._shape.gpu_resource) or 0
                for node in order.nodes
            ]
            if min(counts) < 1:
                node = order.nodes[counts.index(min(counts))]
                return f"node {node} has no {self._shape.gpu_resource} to give"
            if not ensure(self._api, replace(order, gpus=min(counts)), self._shape, call):
                return f"a Job {self._namespace}/{order.name} is there that is not of this operation"
        except KubeError as error:
            return f"no Job was created on {' and '.join(order.nodes)}: {plain(error, 300)}"
        return None

    def _node(self, node: str, deadline: Deadline) -> dict[str, object]:
        return self._api.get(NODES, node, None, deadline)

    def _result(self, one: str, order: JobOrder, look: JobLook) -> NodeRetest:
        where = f"Job {self._namespace}/{look.name}"
        if not look.believed:
            ending = RetestEnding.FAIL if look.failing is Failing.HUNG else RetestEnding.ERROR
            return NodeRetest(node=one, ending=ending, note=f"{where}: {look.note}", alone=ending, record=where)
        try:
            if order.pair:
                assert self._judge_pair is not None
                judged = self._judge_pair(look.said, *order.nodes)
            else:
                judged = self._judge(look.said[order.nodes[0]], order.nodes[0])
        except NotSaid as error:
            return _error(one, f"{where}: {error}")
        ending = _ENDINGS.get(judged.decision, RetestEnding.ERROR)
        note = f"{'together' if order.pair else 'alone'} {ending.value}: {judged.reason}"
        return NodeRetest(node=one, ending=ending, note=note, alone=ending, record=judged.record or where)

    def _late(self, one: str, order: JobOrder, look: JobLook | None, deadline: Deadline) -> NodeRetest:
        """The time is over. It has hung where it ran as long as it might, and was too late otherwise."""
        where = f"Job {self._namespace}/{order.name}"
        try:
            remove(self._api, order.name, self._namespace, order.belongs_to, deadline)
            left = "it was deleted"
        except NotThere:
            left = "it is gone"
        except KubeError as error:
            left = f"it could not be deleted ({plain(error, 200)}), and ends by its own limit"
        if look is not None and look.state is JobState.RUNNING and look.running_since is not None:
            ran = self._wall() - look.running_since
            if ran >= 0.5 * work_seconds(order, self._shape):
                note = f"{where} hung: it had not ended after {ran:.0f} s; {left}; a hung check is a failed check"
                return NodeRetest(node=one, ending=RetestEnding.FAIL, note=note, alone=RetestEnding.FAIL, record=where)
            return _error(one, f"{where} had run for {ran:.0f} s when the time was over; {left}")
        why = look.note if look is not None and look.note else "nobody says why"
        return _error(one, f"{where} had not begun when the time was over: {why}; {left}")

    def _with_good(
        self,
        alone: Mapping[str, NodeRetest],
        good: str,
        operation: str,
        within: Deadline,
        deadline: Deadline,
    ) -> dict[str, NodeRetest]:
        """Of those that may have a fault that only a second node shows."""
        results = dict(alone)
        wanted = [
            one
            for one, said in alone.items()
            if said.ending in (RetestEnding.PASS, RetestEnding.PROVISIONAL) and self._nodes.get(one, one) != good
        ]
        for place, one in enumerate(wanted):
            until = within.within(within.remaining() / (len(wanted) - place))
            order = self._order((self._nodes.get(one, one), good), operation, until, False)
            together = self._all({one: order}, until, deadline)[one]
            results[one] = _both(alone[one], together)
        return results


def _both(alone: NodeRetest, together: NodeRetest) -> NodeRetest:
    """The worse of the two."""
    order = (RetestEnding.FAIL, RetestEnding.ERROR, RetestEnding.PROVISIONAL)
    ending = next((one for one in order if one in (alone.ending, together.ending)), RetestEnding.PASS)
    return NodeRetest(
        node=alone.node,
        ending=ending,
        note=f"{alone.note}; {together.note}",
        alone=alone.ending,
        paired=together.ending,
        record=together.record if together.ending is ending and alone.ending is not ending else alone.record,
    )


def _error(node: str, note: str) -> NodeRetest:
    return NodeRetest(node=node, ending=RetestEnding.ERROR, note=note, alone=RetestEnding.ERROR)


def _by_itself(payload: Payload, node: str) -> Judged:
    """What the record says without a history."""
    document = record_of(payload, node)
    reasons = document.get("reasons")
    first = reasons[0] if isinstance(reasons, list) and reasons else ""
    return Judged(str(document["decision"]), plain(first, 400), str(document["hash"]))
