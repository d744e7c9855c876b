"""Changes of fingerprints as findings: the same change on many nodes is one finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rankmuster.baseline.drift.changed import NodeChanges
from rankmuster.baseline.drift.parts import kind_of, place
from rankmuster.baseline.drift.settings import DriftSettings
from rankmuster.baseline.drift.systematic import together
from rankmuster.baseline.drift.words import changed, many, relative, some
from rankmuster.model.drift import DriftFinding, DriftScope
from rankmuster.model.fingerprint import Change

NO_CLASS = "unknown"
"""Of a node whose class cannot be told."""

_Key = tuple[str, str, str, str]


def changed_findings(nodes: Sequence[NodeChanges], settings: DriftSettings) -> tuple[DriftFinding, ...]:
    """One for each class, part and pair of values; a part that a node has several of (its GPUs) counts once."""
    groups: dict[_Key, dict[str, tuple[float, Change]]] = {}
    for one in nodes:
        for change, since in zip(one.changes, one.since, strict=True):
            key = (one.before_class or NO_CLASS, place(change.part), change.before, change.after)
            groups.setdefault(key, {}).setdefault(one.node.name, (since, change))
    sizes: dict[str, int] = {}
    for one in nodes:
        sizes[one.before_class or NO_CLASS] = sizes.get(one.before_class or NO_CLASS, 0) + 1
    return tuple(_finding(key, group, sizes[key[0]], settings) for key, group in groups.items())


def _finding(key: _Key, group: Mapping[str, tuple[float, Change]], of: int, settings: DriftSettings) -> DriftFinding:
    starts = {name: since for name, (since, _) in group.items()}
    # where some went back to what they were and others got it anew, the latter matters more
    change = min((change for _, change in group.values()), key=lambda one: one.applies)
    names = tuple(sorted(group))
    systematic = together(starts, of, settings) is not None
    where = "" if len(names) == 1 else f", on {many(len(names))} of {of:,}: {some(names)}"
    if len(names) == 1 or key[1] == change.part:
        what = changed(change)
    else:
        what = changed(Change(key[1], change.before, change.after, change.effect, change.applies))
    effect = change.effect
    if not change.applies and "baseline" not in effect:
        effect = "; ".join(filter(None, (effect, "the old baseline does not apply")))
    return DriftFinding(
        kind=kind_of(change.part),
        scope=DriftScope.SYSTEMATIC if systematic else DriftScope.NODE,
        class_hash=key[0],
        nodes=names,
        statement=f"{what}{where}",
        effect=effect,
        size=relative(change),
        since=min(starts.values()),
        change=change,
    )


def why_not(nodes: Sequence[NodeChanges]) -> tuple[str, ...]:
    """The changes that make old baselines not applicable, each once, with how many nodes have it."""
    counts: dict[str, int] = {}
    for one in nodes:
        for words in {changed(_placed(change)) for change in one.changes if not change.applies}:
            counts[words] = counts.get(words, 0) + 1
        if one.moved and not any(not change.applies for change in one.changes):
            counts["its class is another one"] = counts.get("its class is another one", 0) + 1
    return tuple(f"{words} (on {many(count)})" for words, count in sorted(counts.items(), key=lambda item: -item[1]))


def _placed(change: Change) -> Change:
    return Change(place(change.part), change.before, change.after, change.effect, change.applies)
