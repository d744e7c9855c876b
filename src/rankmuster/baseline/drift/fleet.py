"""What drift is computed from: nodes with their fingerprints over time, and the histories of their classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ClassHistory
from rankmuster.model.unknown import Unknown


@dataclass(frozen=True, slots=True, eq=False)
class NodePast:
    """One node. `name`: its host, or its node hash where that is unknown; `node_hash`: as histories name it.

    `fingerprints`: by time, oldest first; the last one is what it is now. `now_is_live`: that one was taken just now,
    not stored before. `runs`: results the store has of it, by state, of any class.
    `earlier_hashes`: what its node hash was before a GPU or NIC was replaced. `earlier_classes`: classes that it was in
    before the first of `fingerprints` was taken.
    """

    name: str
    node_hash: str | None
    fingerprints: tuple[Fingerprint, ...]
    now_is_live: bool = False
    runs: Mapping[str, int] = field(default_factory=dict)
    earlier_hashes: tuple[str, ...] = ()
    earlier_classes: tuple[str, ...] = ()

    @property
    def now(self) -> Fingerprint | None:
        """The newest fingerprint, None where there is none at all."""
        return self.fingerprints[-1] if self.fingerprints else None

    def before(self, since: float | None) -> Fingerprint | None:
        """The one to compare with: in force at `since` (else the oldest), None where there is no earlier one."""
        earlier = self.fingerprints[:-1]
        if not earlier:
            return None
        if since is None:
            return earlier[0]
        in_force = [one for one in earlier if one.taken_at <= since]
        return in_force[-1] if in_force else earlier[0]


@dataclass(frozen=True, slots=True, eq=False)
class Fleet:
    """`histories`: of each class and profile that these nodes were measured in; all runs of the class belong to it,
    those of nodes that are not asked about too, since one node is seen to be odd against its kind alone.

    `now`: unix seconds. `peers`: node hash -> name of nodes that are not asked about; whether one of those that are
    drifts alone or with them is said all the same.
    """

    nodes: tuple[NodePast, ...]
    histories: tuple[ClassHistory, ...]
    now: float
    peers: Mapping[str, str] = field(default_factory=dict)


def known(value: object) -> str | None:
    """A hash or a version where it is known."""
    return None if isinstance(value, Unknown) or value is None else str(value)
