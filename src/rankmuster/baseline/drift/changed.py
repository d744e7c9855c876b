"""What changed in the fingerprints of nodes since the stored ones, and what of them cannot be compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from rankmuster.baseline.drift.fleet import NodePast, known
from rankmuster.baseline.drift.parts import PROFILE, matters
from rankmuster.baseline.drift.words import changed, day
from rankmuster.baseline.fingerprint.changes import changes, undecided
from rankmuster.baseline.fingerprint.machine import MACHINE
from rankmuster.model.fingerprint import Change, Fingerprint

TAKEN_BACK = "taken back: the node is what it was before, and the baseline of then applies again"
TAKE = "`rankmuster admit` on the node stores one with each result"


@dataclass(frozen=True, slots=True)
class NodeChanges:
    """One node. `since`: unix seconds of the first fingerprint with the new value, by place in `changes`.

    `before_class`, `class_hash`: None where unknown. `unknown`: what could not be compared and may matter to results,
    in sentences; `notes`: what could not be and does not. `returned`: it is in a class again that it was in before
    `before` was taken: what was measured of it then is its baseline again.
    """

    node: NodePast
    before: Fingerprint | None
    changes: tuple[Change, ...]
    since: tuple[float, ...]
    unknown: tuple[str, ...]
    notes: tuple[str, ...] = ()
    returned: bool = False

    @property
    def before_class(self) -> str | None:
        """The class that it was in; None where there is no earlier fingerprint or its class is unknown."""
        return None if self.before is None else known(self.before.class_hash)

    @property
    def class_hash(self) -> str | None:
        """The class that it is in; None where that is unknown."""
        return None if self.node.now is None else known(self.node.now.class_hash)

    @property
    def moved(self) -> bool:
        """Whether its class is another one now, both known, and one that is new to it."""
        classes = (self.before_class, self.class_hash)
        return not self.returned and None not in classes and classes[0] != classes[1]

    def between(self, before: str, after: str) -> tuple[Change, ...]:
        """What of it changed when it went from one class to the other, and makes the old baseline not applicable."""
        for old, new in pairwise(self.node.fingerprints):
            if (known(old.class_hash), known(new.class_hash)) == (before, after):
                return tuple(one for one in changes(old, new) if not one.applies and not undecided(one))
        return ()


def compared(node: NodePast, since: float | None) -> NodeChanges:
    """The node's fingerprint now against the one in force at `since` (its oldest for None)."""
    now, before = node.now, node.before(since)
    if now is None:
        return NodeChanges(node, None, (), (), (f"{node.name}: there is no fingerprint of it",))
    if since is not None and now.taken_at < since and not node.now_is_live:
        stale = f"its newest fingerprint is of {day(now.taken_at)}, so nothing says what it is now; {TAKE}"
        return NodeChanges(node, None, (), (), (f"{node.name}: {stale}",))
    if before is None:
        what = "no fingerprint of it was stored before" if node.now_is_live else "one fingerprint alone is stored of it"
        alone = f"{what}, so nothing says whether it changed; {TAKE}"
        return NodeChanges(node, None, (), (), (f"{node.name}: {alone}", *_unknown_class(node, now)))
    found = changes(before, now)
    if any(one.part == MACHINE for one in found):
        what = "no GPU and no NIC of it is one of the stored fingerprint's: another machine has its name now"
        return NodeChanges(node, None, (), (), (f"{node.name}: {what}; its past is not this one's",))
    known_ones = [one for one in found if not undecided(one) and one.part != PROFILE]
    real = tuple(one for one in known_ones if matters(one))
    returned = _returned(node, before, now)
    if returned:
        real = tuple(_taken_back(one) for one in real)
    open_ones = [one for one in found if undecided(one)]
    return NodeChanges(
        node=node,
        before=before,
        changes=real,
        since=tuple(_first_seen(node.fingerprints, before, one) for one in real),
        unknown=(
            *(_not_known(node, one) for one in open_ones if not one.applies),
            *_unknown_class(node, now),
        ),
        notes=(
            *(_not_known(node, one) for one in open_ones if one.applies),
            *(f"{node.name}: {changed(one)}, which does nothing known" for one in known_ones if not matters(one)),
        ),
        returned=returned,
    )


def _returned(node: NodePast, before: Fingerprint, now: Fingerprint) -> bool:
    class_hash = known(now.class_hash)
    if class_hash is None or class_hash == known(before.class_hash):
        return False
    earlier = {known(one.class_hash) for one in node.fingerprints if one.taken_at < before.taken_at}
    return class_hash in earlier or class_hash in node.earlier_classes


def _taken_back(change: Change) -> Change:
    if change.applies:
        return change
    return replace(change, effect=TAKEN_BACK, applies=True, regenerate=())


def same_machine(node: NodePast) -> bool:
    """Whether its newest fingerprint shares a GPU or NIC with the one before, or one of them does not say."""
    if len(node.fingerprints) < 2:
        return True
    return not any(one.part == MACHINE for one in changes(node.fingerprints[-2], node.fingerprints[-1]))


def _not_known(node: NodePast, change: Change) -> str:
    return f"{node.name}: {change.part} was {change.before} and is {change.after}"


def _unknown_class(node: NodePast, now: Fingerprint) -> tuple[str, ...]:
    reason = None if known(now.class_hash) is not None else getattr(now.class_hash, "reason", "")
    return () if reason is None else (f"{node.name}: its class cannot be told ({reason})",)


def _first_seen(fingerprints: Sequence[Fingerprint], before: Fingerprint, change: Change) -> float:
    """When the new value was seen first: each fingerprint in between is asked what had changed by then."""
    later = [one for one in fingerprints if one.taken_at > before.taken_at]
    for one in later[:-1]:
        if any(other.part == change.part and other.after == change.after for other in changes(before, one)):
            return one.taken_at
    return later[-1].taken_at if later else before.taken_at
