"""Which baselines have to be measured anew: those of classes that nodes have moved into and that lack results."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.baseline.drift.changed import NodeChanges
from rankmuster.baseline.drift.fleet import known
from rankmuster.baseline.drift.words import many, short
from rankmuster.baseline.fingerprint.effects import BASELINE, PROFILE
from rankmuster.model.history import ClassHistory

ENOUGH_RUNS = 30
"""Runs with which a class has a history of its own: the rates of false alarms and of detection are stated for it."""


OF_CLASSES = (BASELINE, PROFILE)
"""What changes call the baselines that are named here one by one."""


def regenerate(nodes: Sequence[NodeChanges], histories: Sequence[ClassHistory]) -> tuple[str, ...]:
    """One sentence per class and profile that lacks runs, largest class first, then what else the changes ask for."""
    runs = {(one.class_hash, one.profile): one.total for one in histories}
    profiles: dict[str, set[str]] = {}
    for one in histories:
        profiles.setdefault(one.class_hash, set()).add(one.profile)
    wanted: dict[tuple[str, str], int] = {}
    for node in nodes:
        if not node.moved or node.class_hash is None or node.before_class is None:
            continue
        own = None if node.before is None else known(node.before.nccl_test_profile)
        for profile in sorted(
            profiles.get(node.before_class, set()) or ({own} if own not in (None, "none") else set())
        ):
            if profile is not None:
                wanted[node.class_hash, profile] = wanted.get((node.class_hash, profile), 0) + 1
    beside = dict.fromkeys(
        what for node in nodes for change in node.changes for what in change.regenerate if what not in OF_CLASSES
    )
    lacking = (
        f"class {short(class_hash)}, profile {profile}: {runs.get((class_hash, profile), 0)} of {ENOUGH_RUNS} runs so "
        f"far, {many(count)} to measure on"
        for (class_hash, profile), count in sorted(wanted.items(), key=lambda item: (-item[1], item[0]))
        if runs.get((class_hash, profile), 0) < ENOUGH_RUNS
    )
    return (*lacking, *beside)
