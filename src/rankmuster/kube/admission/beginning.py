"""NodeAdmissions are created for nodes that have none of themselves as they are, a bounded number in one turn."""

from __future__ import annotations

from collections.abc import Callable

from rankmuster.adapters.kube.api import KubeError
from rankmuster.adapters.kube.nodes import unsettled
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.begin import begin
from rankmuster.kube.admission.fleet import current
from rankmuster.kube.admission.memory import Memory
from rankmuster.kube.admission.perform import Performer
from rankmuster.kube.admission.seen import Admission
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.admission.watched import facts_of
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.kube import NodeView

MOST_BEGUN = 100
"""In one turn: at a first installation all nodes need one."""

CALL_SECONDS = 10.0


class Beginning:
    """`fingerprints`: what a node's agent has read. `image`: of the Job, where another one counts as a change.
    `trouble`: (node, what could not be done); `say`: what was."""

    def __init__(
        self,
        settings: AdmissionSettings,
        memory: Memory,
        performer: Performer,
        fingerprints: Callable[[str], Fingerprint | None],
        image: str | None,
        trouble: Callable[[str, str], None],
        say: Callable[[str], None],
    ) -> None:
        self._settings, self._memory, self._performer = settings, memory, performer
        self._fingerprints, self._image, self._trouble, self._say = fingerprints, image, trouble, say

    def turn(self, until: Deadline) -> None:
        """Nodes of which something was told since the last one."""
        admissions = self._memory.admissions()
        now_of, first = current(admissions), min((one.created for one in admissions), default=None)
        left_alone, nodes = self._memory.left_alone(), self._memory.nodes()
        begun = 0
        for name in self._memory.take_dirty(len(nodes) + 1):
            node = nodes.get(name)
            if node is None or name in left_alone:
                continue
            if begun >= MOST_BEGUN or until.passed:
                self._memory.again(name)
                continue
            begun += self._one(node, now_of.get(name), first, until.within(CALL_SECONDS))

    def _one(self, node: NodeView, known: Admission | None, first: float | None, deadline: Deadline) -> bool:
        """Whether something was written, or tried to."""
        facts = facts_of(node, self._fingerprints(node.name), self._settings.ignore, self._image)
        one = begin(node, known, facts, self._settings, first=first, unsettled=unsettled(node))
        try:
            if one is not None:
                self._performer.begin(one, deadline)
                self._say(f"node {node.name}: {one.trigger}")
                return True
            if known is not None and known.node_uid == node.uid and facts.keys() - known.facts.keys():
                self._performer.remember(known, facts, deadline)
                return True
        except KubeError as error:
            self._trouble(node.name, f"its NodeAdmission could not be written: {error}")
            self._memory.again(node.name)
            return True
        return False
