"""NCCL's choices by the runs' logs: a node that chooses otherwise than its class, a class than the one before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.baseline.drift.settings import CHOICE_SHARE, LEAST_RUNS_AFTER, LEAST_RUNS_BEFORE
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.history import ClassHistory

Place = tuple[str, int]
"""Operation and size in bytes."""


@dataclass(frozen=True, slots=True)
class Otherwise:
    """`usual`, `now`: as `RING/SIMPLE, 16 channels`. `since`: unix seconds of the first run that chose so."""

    node: str
    class_hash: str
    operation: str
    size_bytes: int
    usual: str
    now: str
    since: float


def otherwise(history: ClassHistory, asked: Collection[str]) -> tuple[Otherwise, ...]:
    """Nodes whose newest runs all choose otherwise than their class does; of each the largest size."""
    usual = usual_choices(history)
    if not usual:
        return ()
    rows: dict[str, list[int]] = {}
    for index in np.argsort(history.started_at, kind="stable").tolist():
        if history.choices[index]:
            rows.setdefault(history.nodes[index], []).append(index)
    found = []
    for node in sorted(set(rows) & set(asked)):
        newest = [_by_place(history.choices[index]) for index in rows[node]]
        for place in sorted(usual, key=lambda one: (-one[1], one[0])):
            said = [one.get(place) for one in newest]
            last = said[-1]
            if last is None or last == usual[place] or len(said) < LEAST_RUNS_AFTER:
                continue
            if any(one != last for one in said[-LEAST_RUNS_AFTER:]):
                continue
            first = len(said)
            while first and said[first - 1] == last:
                first -= 1
            since = float(history.started_at[rows[node][first]])
            found.append(Otherwise(node, history.class_hash, place[0], place[1], usual[place], last, since))
            break
    return tuple(found)


def usual_choices(history: ClassHistory) -> dict[Place, str]:
    """What the class chooses at each place, where its runs agree; {} where runs do not say."""
    if len(history.choices) != len(history.nodes):
        return {}
    counts: dict[Place, Counter[str]] = {}
    for choices in history.choices:
        for place, words in _by_place(choices).items():
            counts.setdefault(place, Counter())[words] += 1
    found = {}
    for place, counter in counts.items():
        words, count = counter.most_common(1)[0]
        if count >= LEAST_RUNS_BEFORE and count >= CHOICE_SHARE * counter.total():
            found[place] = words
    return found


def differing(before: Mapping[Place, str], after: Mapping[Place, str]) -> tuple[tuple[Place, str, str], ...]:
    """Places where two classes choose differently, largest size first."""
    places = [place for place in before if place in after and before[place] != after[place]]
    return tuple((place, before[place], after[place]) for place in sorted(places, key=lambda one: (-one[1], one[0])))


def _by_place(choices: Sequence[AlgorithmChoice]) -> dict[Place, str]:
    return {(one.operation, one.size_bytes): _words(one) for one in choices}


def _words(one: AlgorithmChoice) -> str:
    channels = "" if one.channels is None else f", {one.channels} channels"
    return f"{one.algorithm}/{one.protocol}{channels}"
