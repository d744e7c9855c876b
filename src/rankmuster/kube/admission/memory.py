"""What is known of nodes and NodeAdmissions between two turns. Thread-safe.

Watches are late: what our own write brought back is younger than what they tell next. So of two versions of one object
the one with the greater resourceVersion stays; they are numbers on every API server there is, and where they are not,
the later word counts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import ADMISSIONS, NODES
from rankmuster.adapters.kube.fields import text
from rankmuster.adapters.kube.nodes import node_view
from rankmuster.kube.admission.read import NotRead, admission_of
from rankmuster.kube.admission.seen import Admission
from rankmuster.model.kube import NodeView


class Memory:
    """`say`: gets what cannot be read."""

    def __init__(self, unix_now: Callable[[], float], say: Callable[[str], None]) -> None:
        self._lock = threading.Lock()
        self._unix_now, self._say = unix_now, say
        self._nodes: dict[str, NodeView] = {}
        self._admissions: dict[str, Admission] = {}
        self._unread: dict[str, str] = {}
        self._changed_at: dict[str, float] = {}
        self._dirty: set[str] = set()

    def node(self, view: NodeView) -> None:
        """A node as it is now."""
        with self._lock:
            known = self._nodes.get(view.name)
            if known is not None and known.uid == view.uid and _older(view.resource_version, known.resource_version):
                return
            if known is None or known.uid != view.uid or known.facts != view.facts:
                self._changed_at[view.name] = self._unix_now()
            self._nodes[view.name] = view
            self._dirty.add(view.name)

    def node_gone(self, name: str) -> None:
        """Deleted, as a watch or a look says."""
        with self._lock:
            self._nodes.pop(name, None)
            self._changed_at.pop(name, None)
            self._dirty.discard(name)

    def admission(self, raw: Mapping[str, Any]) -> None:
        """A NodeAdmission as it is now. One that cannot be read is said once, and its node is left alone."""
        try:
            found = admission_of(raw)
        except NotRead as error:
            name = text(raw, "metadata", "name") or "?"
            with self._lock:
                known, self._unread[name] = self._unread.get(name), text(raw, "spec", "node") or ""
                self._admissions.pop(name, None)
            if known is None:
                self._say(str(error))
            return
        with self._lock:
            before = self._admissions.get(found.name)
            same = before is not None and before.uid == found.uid
            if before is not None and same and _older(found.resource_version, before.resource_version):
                return
            self._unread.pop(found.name, None)
            self._admissions[found.name] = found
            self._dirty.add(found.node)

    def admission_gone(self, name: str) -> None:
        """Deleted; its node may need another one."""
        with self._lock:
            known = self._admissions.pop(name, None)
            self._unread.pop(name, None)
            if known is not None:
                self._dirty.add(known.node)

    def raw(self, found: Mapping[str, Any]) -> None:
        """What an act brought back."""
        kind = text(found, "kind")
        if kind == ADMISSIONS.kind:
            self.admission(found)
        elif kind == NODES.kind:
            with self._lock:
                known = self._nodes.get(text(found, "metadata", "name") or "")
            self.node(node_view(found, tuple(known.labels) if known is not None else ()))

    def only(self, names: frozenset[str]) -> None:
        """After a whole list: whatever is not in it is gone. All nodes are to be looked at again."""
        with self._lock:
            self._admissions = {name: one for name, one in self._admissions.items() if name in names}
            self._unread = {name: node for name, node in self._unread.items() if name in names}
            self._dirty |= self._nodes.keys()

    def nodes(self) -> dict[str, NodeView]:
        """By name."""
        with self._lock:
            return dict(self._nodes)

    def admissions(self) -> tuple[Admission, ...]:
        """All that could be read."""
        with self._lock:
            return tuple(self._admissions.values())

    def one(self, name: str) -> Admission | None:
        """The admission of that name."""
        with self._lock:
            return self._admissions.get(name)

    def left_alone(self) -> frozenset[str]:
        """Nodes with an admission that could not be read."""
        with self._lock:
            return frozenset(self._unread.values())

    def changed_at(self, node: str) -> float:
        """When facts of it changed last while somebody looked, unix seconds."""
        with self._lock:
            return self._changed_at.get(node, 0.0)

    def take_dirty(self, most: int) -> tuple[str, ...]:
        """Nodes to be looked at anew."""
        with self._lock:
            taken = sorted(self._dirty)[:most]
            self._dirty.difference_update(taken)
            return tuple(taken)

    def again(self, node: str) -> None:
        """It is to be looked at anew."""
        with self._lock:
            self._dirty.add(node)


def _older(one: str, other: str) -> bool:
    return one.isdecimal() and other.isdecimal() and int(one) < int(other)
