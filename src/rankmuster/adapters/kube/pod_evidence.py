"""Evidence of an instance in a cluster, before anything is killed: from the sidecars of its pods and the agents of
their nodes at once, from what pods that end have left with an agent, and by exec from pods without a sidecar.

Whoever does not answer is named and costs no more than the deadline. Every bundle lies whole on this disk before it is
counted; one that spoils a merge is left out of it and kept beside it. A run that was killed is taken up with what it
had brought: the pods may be gone by then.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from rankmuster.adapters.bundle_child import (
    BUNDLE,
    MARGIN,
    MERGE_SECONDS,
    MERGE_SHARE,
    NODES,
    answer_with,
    diagnose_bundle,
    no_evidence,
)
from rankmuster.adapters.collect_here import LEAST_SECONDS, SEND_SECONDS
from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.agent_wire import CollectWish, NoAnswer, Peer, agent_at, sidecar_of
from rankmuster.adapters.kube.api import Api, KubeError
from rankmuster.adapters.kube.at_once import at_once
from rankmuster.adapters.kube.exec_collect import ExecWish, take_pod
from rankmuster.adapters.kube.pod_bundles import bundles_in, one_of
from rankmuster.adapters.kube.pod_exec import where
from rankmuster.adapters.kube.pods import ended, engines
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.model.kube import AGENT_PORT, SIDECAR, SIDECAR_PORT, PodView

LEFT_SECONDS = 1.5
"""Kept for asking a node's agent for what a pod has left, where the pod's own sidecar has not answered by then."""

RECENT_SECONDS = 900.0
"""Before now, in which a pod that runs must have left its bundle: a stop is told within seconds, and nodes' clocks
differ by less. Of a pod that has ended the newest counts, however old."""

ANSWER_SECONDS = 1.0
"""Between a collection's own deadline and its answer: closing a bundle, and finding somebody to send it."""

Pods = Callable[[str, str | None, Deadline], Sequence[PodView]]
"""Instance, incarnation -> its pods, those that were deleted a moment ago too. Raises KubeError."""


@dataclass(frozen=True, slots=True)
class _Got:
    """Of one pod or node. `bundles`: that are here. `notes`: what is missing. `late`: since there was no time."""

    bundles: tuple[Path, ...] = ()
    notes: tuple[str, ...] = ()
    late: bool = False


@dataclass(frozen=True, slots=True)
class _Round:
    """One collection. `whole`: when everything must be here; `first`: when a sidecar must have answered, so that there
    is time to ask for what its pod has left."""

    wish: CollectWish
    nodes: Path
    whole: Deadline
    first: Deadline
    exec_wish: ExecWish = field(default_factory=ExecWish)


class PodEvidence:
    """An `Evidence` of `incident.actuators`. `api` None: no pod is looked into by exec. `agents`: whether there are
    any.

    `collected`: told of every bundle that a collection has left, after it is on the disk (uploads); must not block.
    """

    def __init__(
        self,
        calls: AgentCall,
        pods: Pods,
        *,
        api: Api | None = None,
        name: str = "pods",
        agents: bool = True,
        container: str | None = None,
        sidecar_port: int = SIDECAR_PORT,
        agent_port: int = AGENT_PORT,
        collected: Callable[[Path], object] | None = None,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.name = name
        self._calls, self._pods, self._api = calls, pods, api
        self._agents, self._container = agents, container
        self._sidecar_port, self._agent_port = sidecar_port, agent_port
        self._collected, self._wall = collected, wall

    def collect(
        self,
        instance: str,
        incarnation: str | None,
        pids: tuple[int, ...],  # noqa: ARG002  # of containers on other machines: sidecars find them
        folder: str,
        deadline: Deadline,
        *,
        stopped: bool,
    ) -> Answer:
        """Data: `bundle`, `sha256` of its manifest, `seconds`, `missing`."""
        begun, place = deadline.clock(), Path(folder).absolute()
        try:
            (place / NODES).mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            note = f"no evidence can be kept in {place} ({error.strerror or error})"
            return Answer(ending=Ending.FAILED, note=note)
        there = place / BUNDLE
        if there.is_dir():
            return self._answer(there, [], f"a bundle is there already: {there}", deadline, begun)
        within = deadline.before(MARGIN)
        merging = min(MERGE_SECONDS, within.remaining() * MERGE_SHARE)
        gather = within.before(merging)
        notes: list[str] = []
        try:
            pods = tuple(self._pods(instance, incarnation, gather.within(gather.remaining() / 3)))
        except KubeError as error:
            pods = ()
            notes.append(f"which pods the instance has is not known: {error}")
        late = gather.passed
        if pods:
            got = self._everywhere(instance, incarnation, stopped, pods, place / NODES, gather)
            notes += [note for one in got for note in one.notes]
            late = late or any(one.late for one in got)
        elif not notes:
            notes.append(f"{instance} has no pods" + (f" of incarnation {incarnation}" if incarnation else ""))
        bundles = bundles_in(place / NODES)
        if not bundles:
            return no_evidence(notes, late)
        bundle, more = one_of(there, bundles, within)
        said = f"{len(bundles)} bundle(s) of {len(pods)} pod(s) are saved in {bundle}"
        return self._answer(bundle, [*notes, *more], said, deadline, begun)

    def diagnose(self, bundle: str, folder: str, deadline: Deadline) -> Answer:
        """Data: `verdict`, its path; `class`, `subclass`, `confidence`, `progress`, `seconds`."""
        return diagnose_bundle(bundle, folder, deadline)

    # -- asking --------------------------------------------------------------------------------------------------------

    def _everywhere(
        self,
        instance: str,
        incarnation: str | None,
        stopped: bool,
        pods: Sequence[PodView],
        nodes: Path,
        gather: Deadline,
    ) -> list[_Got]:
        first = gather.before(min(LEFT_SECONDS, gather.remaining() / 5))
        seconds = max(first.remaining() - SEND_SECONDS - ANSWER_SECONDS, LEAST_SECONDS)
        around = _Round(
            CollectWish(instance, incarnation, seconds, stopped, tuple(pods)),
            nodes,
            gather,
            first,
            ExecWish(stopped=stopped, container=self._container, as_instance=instance, as_incarnation=incarnation),
        )
        whom = [where(pod) for pod in pods]
        tasks: list[Callable[[], _Got]] = [partial(self._pod, pod, around) for pod in pods]
        if self._agents:
            nodes_of: dict[str, list[PodView]] = {}
            for pod in pods:
                if pod.host_ip:
                    nodes_of.setdefault(pod.host_ip, []).append(pod)
            peers = [agent_at(own[0].node, address, self._agent_port) for address, own in nodes_of.items()]
            whom += [peer.who for peer in peers]
            tasks += [
                partial(self._node, peer, own, around) for peer, own in zip(peers, nodes_of.values(), strict=True)
            ]
        found = at_once(tasks, gather)
        return [
            one if one is not None else _Got((), (f"{who} had not answered in time",), late=True)
            for who, one in zip(whom, found, strict=True)
        ]

    def _pod(self, pod: PodView, around: _Round) -> _Got:
        output = around.nodes / f"pod-{_file_name(pod.name)}-{_file_name(pod.uid)[:8]}.tar.zst"
        if output.exists():
            return _Got((output,))
        sidecar = next((one for one in pod.containers if one.name == SIDECAR), None)
        over = pod.deleting or ended(pod) or not any(one.running for one in engines(pod))
        got = self._left(pod, around) if over else _Got()
        if sidecar is None or (not pod.ip and not over):
            return got if got.bundles else _both(got, self._by_exec(pod, output, around))
        if ended(pod) and got.bundles:
            return got  # nobody is left to be asked
        peer = sidecar_of(pod, self._sidecar_port)
        try:
            fetched = self._calls.collect(peer, around.wish, output, around.first)
        except NoAnswer as error:
            got = _both(got, _Got((), (str(error),), error.late))
            if not over:
                got = _both(got, self._left(pod, around, quiet=True))
            return got if got.bundles or over else _both(got, self._by_exec(pod, output, around))
        notes = () if fetched.whole else (f"{peer.who} could take a part only",)
        return _both(got, _Got((fetched.path,), notes))

    def _left(self, pod: PodView, around: _Round, *, quiet: bool = False) -> _Got:
        """The newest bundle that the pod's sidecar has left with the agent, if it is of this start of its containers.

        `quiet`: nothing is said where there is none.
        """
        if not self._agents:
            return _Got()
        peer = agent_at(pod.node, pod.host_ip, self._agent_port)
        output = around.nodes / f"left-{_file_name(pod.name)}-{_file_name(pod.uid)[:8]}.tar.zst"
        if output.exists():
            return _Got((output,))
        begun = max((one.started_at or 0.0 for one in engines(pod) if one.running), default=0.0)
        if begun:  # it runs: what was left at an earlier alarm shows another culprit
            begun = max(begun, self._wall() - RECENT_SECONDS)
        try:
            found = [one for one in self._calls.left(peer, pod.uid, around.whole) if not one.at or one.at >= begun]
            if not found:
                note = f"{where(pod)} has left no bundle with {peer.who}"
                return _Got((), () if quiet else (note,))
            return _Got((self._calls.fetch(peer, found[0], output, around.whole).path,))
        except NoAnswer as error:
            return _Got((), (str(error),), error.late)

    def _by_exec(self, pod: PodView, output: Path, around: _Round) -> _Got:
        if ended(pod) or pod.deleting:
            return _Got((), (f"{where(pod)} has ended, and nothing of it could be had",))
        if self._api is None:
            return _Got((), (f"{where(pod)} has no sidecar that answers, and looking into it by exec is not enabled",))
        taken = take_pod(self._api, pod, around.exec_wish, output, around.whole)
        bundles = (taken.bundle,) if taken.bundle is not None else ()
        return _Got(bundles, (taken.note,) if taken.note else (), taken.late)

    def _node(self, peer: Peer, pods: Sequence[PodView], around: _Round) -> _Got:
        """What a node says of its pods."""
        output = around.nodes / f"node-{_file_name(pods[0].node or peer.place)}.tar.zst"
        if output.exists():
            return _Got((output,))
        try:
            fetched = self._calls.collect(peer, replace(around.wish, pods=tuple(pods)), output, around.whole)
        except NoAnswer as error:
            return _Got((), (str(error),), error.late)
        return _Got((fetched.path,), () if fetched.whole else (f"{peer.who} could take a part only",))

    def _answer(self, bundle: Path, notes: list[str], said: str, deadline: Deadline, begun: float) -> Answer:
        answer = answer_with(bundle, notes, said, deadline, begun)
        if self._collected is not None:
            self._collected(bundle)
        return answer


def _both(one: _Got, other: _Got) -> _Got:
    return _Got((*one.bundles, *other.bundles), (*one.notes, *other.notes), one.late or other.late)


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "-", text)[:120] or "unnamed"
