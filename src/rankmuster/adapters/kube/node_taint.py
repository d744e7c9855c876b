"""A node is kept from new pods by a taint of ours, with a label, and a cordon where that is wished.

One patch sets all of it with the annotation that says whose it is, bound to the node's UID and resourceVersion: there
is no moment at which a taint stands without its owner. What others set is never overwritten and never lifted; a fence
that somebody has edited is theirs from then on. A cordon that somebody repeats after us cannot be told from ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import NODES, Api, Conflict, KubeError, NotThere, Object
from rankmuster.adapters.kube.endings import failed
from rankmuster.adapters.kube.events import Events, Touched
from rankmuster.adapters.kube.fields import moment, text
from rankmuster.adapters.kube.may_act import Objection, nobody_objects
from rankmuster.adapters.kube.node_words import (
    Fence,
    annotated,
    cordoned,
    fence_of,
    node_name_objection,
    our_taints,
    short,
    stands,
    with_fence,
    without_fence,
)
from rankmuster.adapters.kube.rewriting import Pause, rewrite
from rankmuster.adapters.own_words import fit_reason, incident_objection
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, Fenced, NodeLook
from rankmuster.model.kube import FENCE_TAINT, FENCED_BY


class _Theirs(Exception):
    """It is fenced by others; the message says by whom and how."""


class _Another(Exception):
    """The node that was meant is gone, and another one has its name."""


class NodeTaint:
    """A `Node` of `incident.actuators`. `effect`: of the taint. `cordon`: `unschedulable` as well. `may`: asked before
    a node is fenced; to lift is always allowed. `opened(incident)`: when it was, unix seconds: a node that was made
    later is another machine under that name."""

    def __init__(
        self,
        api: Api,
        *,
        name: str = "node_taint",
        effect: str = "NoSchedule",
        cordon: bool = False,
        events: Events | None = None,
        wall: Callable[[], float] = time.time,
        pause: Pause = time.sleep,
        may: Objection = nobody_objects,
        opened: Callable[[str], float | None] = lambda _: None,
    ) -> None:
        self.name, self._may, self._opened = name, may, opened
        self._api, self._effect, self._cordon = api, effect, cordon
        self._events, self._wall, self._pause = events, wall, pause

    def look(self, node: str, deadline: Deadline) -> NodeLook:
        """OTHERS where somebody else has cordoned it, or uses our key. A node that is gone is fenced by nobody."""
        objection = node_name_objection(node)
        if objection:
            return NodeLook(fenced=Fenced.UNKNOWN, note=objection)
        try:
            found = self._api.get(NODES, node, None, deadline)
        except NotThere:
            return NodeLook(fenced=Fenced.NO, note=f"there is no node {node}")
        except KubeError as error:
            return NodeLook(fenced=Fenced.UNKNOWN, note=str(error))
        fence = fence_of(found)
        if fence is not None and stands(found, fence):
            note = f"node {node} has our taint {FENCE_TAINT}={fence.value}:{fence.effect}"
            return NodeLook(fenced=Fenced.OURS, incident=fence.incident, reason=fence.reason, note=note)
        theirs = _theirs(found, node)
        if theirs:
            return NodeLook(fenced=Fenced.OTHERS, note=theirs)
        if cordoned(found):
            return NodeLook(fenced=Fenced.OTHERS, note=f"node {node} is cordoned, and not by us")
        half = f"; our annotation {FENCED_BY} stands there without its taint" if annotated(found) else ""
        return NodeLook(fenced=Fenced.NO, note=f"node {node} is not fenced{half}")

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        """Sets taint, label and cordon, unless there is a fence already. On one that others have only cordoned the
        taint is set as well, and their cordon stays theirs."""
        objection = node_name_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was asked of the API server: {objection}")
        objected = self._may(deadline)
        if objected is not None:
            return objected
        said: list[str] = []
        opened = self._opened(incident)

        def change(found: Object) -> Mapping[str, Any] | None:
            created = moment(found, "metadata", "creationTimestamp")
            if opened is not None and created is not None and created > opened:
                raise _Another(f"node {node} was made anew {created - opened:.0f} s after the incident was opened")
            before = fence_of(found)
            if before is not None and stands(found, before):
                if before.incident != incident:
                    raise _Theirs(f"node {node} is fenced by incident {before.incident} of ours already; that stays")
                said.append("it was fenced by this incident already")
                return None
            theirs = _theirs(found, node, incident)
            if theirs:
                raise _Theirs(f"{theirs}; that stays theirs")
            wanted = Fence(
                incident=incident,
                node_uid=text(found, "metadata", "uid") or "",
                value=short(incident),
                effect=self._effect,
                reason=fit_reason(reason),
                at=self._wall(),
            )
            patch, made = with_fence(found, wanted, cordon=self._cordon)
            if cordoned(found) and not made.cordon:
                said.append("it was cordoned by others before, and that stays theirs")
            return patch

        try:
            after, wrote = rewrite(self._api, NODES, node, None, change, deadline, pause=self._pause)
        except _Theirs as theirs:
            return Answer(ending=Ending.DONE, note=str(theirs), data={"others": True})
        except _Another as another:
            note = f"nothing was done: {another}, and nothing is known against that one"
            return Answer(ending=Ending.REFUSED, note=note, data={"sent": False})
        except KubeError as error:
            return self._failed(f"node {node} is not known to be fenced", error)
        fence = fence_of(after)
        if fence is None or fence.incident != incident or not stands(after, fence):
            note = f"node {node} was patched, and the API server answered with a node without our taint"
            return Answer(ending=Ending.FAILED, note=note)
        if wrote:
            self._tell(
                after, node, "Fenced", f"kept from new pods by incident {incident}: {fence.reason}", warning=True
            )
        more = "".join(f"; {one}" for one in dict.fromkeys(said))
        how = " and cordoned" if fence.cordon else ""
        note = f"node {node} has the taint {FENCE_TAINT}={fence.value}:{fence.effect}{how}{more}"
        return Answer(ending=Ending.DONE, note=note, data={"node_uid": fence.node_uid})

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        """Takes away what the annotation of this incident says it has set."""
        objection = node_name_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was asked of the API server: {objection}")

        def change(found: Object) -> Mapping[str, Any] | None:
            fence = fence_of(found)
            if fence is not None and fence.incident != incident and stands(found, fence):
                raise _Theirs(f"the fence of node {node} is of incident {fence.incident} and stays")
            theirs = _theirs(found, node, incident)
            if theirs:
                raise _Theirs(f"{theirs}; it stays: kubectl taint node {node} {FENCE_TAINT}- lifts it by hand")
            return None if fence is None or fence.incident != incident else without_fence(found, fence)

        try:
            after, wrote = rewrite(self._api, NODES, node, None, change, deadline, pause=self._pause)
        except _Theirs as theirs:
            return Answer(ending=Ending.REFUSED, note=str(theirs), data={"others": True})
        except NotThere:
            note = f"there is no such node {node} any more; there is nothing to lift"
            return Answer(ending=Ending.DONE, note=note)
        except KubeError as error:
            return self._failed(f"the fence of node {node} is not known to be lifted", error)
        left = fence_of(after)
        if our_taints(after) or (left is not None and left.incident == incident):
            note = f"node {node} was patched, and the API server answered with a node that has our taint still"
            return Answer(ending=Ending.FAILED, note=note)
        if wrote:
            self._tell(after, node, "FenceLifted", f"incident {incident} keeps it from new pods no longer")
        stays = "; it is cordoned by others, and stays so" if cordoned(after) else ""
        note = f"the fence of node {node} is lifted" if wrote else f"node {node} has no fence of this incident to lift"
        return Answer(ending=Ending.DONE, note=note + stays, data={"others": True} if stays else {})

    def would(self, verb: str, node: str, incident: str, reason: str = "") -> tuple[str, ...]:
        """The patch, in words."""
        taint = f"{FENCE_TAINT}={short(incident)}:{self._effect}"
        if verb == "lift":
            what = f"PATCH nodes/{node}: taint {taint}, label, cordon and annotation {FENCED_BY} away"
            return (f"{what}  # as far as the annotation says that incident {incident} has set them",)
        cordon = ", unschedulable" if self._cordon else ""
        what = f"PATCH nodes/{node}: taint {taint}{cordon}, annotation {FENCED_BY} ({fit_reason(reason)})"
        return (f"{what}  # unless others have fenced it",)

    def _failed(self, what: str, error: KubeError) -> Answer:
        if isinstance(error, Conflict):
            what = f"{what}: nothing was changed, since it changed while it was looked at"
        return failed(what, error)

    def _tell(self, found: Object, node: str, reason: str, note: str, *, warning: bool = False) -> None:
        uid = text(found, "metadata", "uid")
        if self._events is not None and uid is not None:
            self._events.tell(Touched(NODES, node, uid), reason, note, warning=warning)


def _theirs(found: Object, node: str, incident: str | None = None) -> str:
    """Whose our key is, where it is not ours; empty where nobody else uses it."""
    fence = fence_of(found)
    taints = our_taints(found)
    if not taints or (fence is not None and stands(found, fence) and len(taints) == 1):
        return ""
    values = ", ".join(f"{text(one, 'value') or ''}:{text(one, 'effect') or ''}" for one in taints)
    if fence is not None:
        whose = "this incident's" if fence.incident == incident else f"that of incident {fence.incident}"
        return f"node {node} has the taint {FENCE_TAINT} as somebody has edited it ({values}), and not {whose}"
    return f"node {node} has the taint {FENCE_TAINT} ({values}) that others have set"
