"""What the history of benchmarks knows of the classes in use, as the checklist needs it."""

from __future__ import annotations

from collections.abc import Iterable

from rankmuster.gate.facts import ClassPast, Measured, Past, Together
from rankmuster.model.admission import Decision
from rankmuster.model.benchmark import HistoryRun, RunState
from rankmuster.model.unknown import Unknown

MOST_RUNS = 1000
"""Of a class, newest first: what is asked of them is only which sizes were measured."""
MOST_ADMISSIONS = 5000
"""Newest first: of a fleet of a thousand nodes those of five rounds."""


def past_of(place: str, classes: Iterable[str]) -> Past | Unknown:
    """`place`: a file or URL of a history. Unknown where it cannot be asked, with what to do."""
    try:
        from rankmuster.store.errors import HistoryError
        from rankmuster.store.history import History
    except ModuleNotFoundError as error:
        return Unknown(f"the history cannot be read without {error.name}: pip install 'rankmuster[history]'")
    try:
        with History.open(place, create=False) as history:
            found = {name: _class(history, name) for name in classes}
            admissions = history.admissions(limit=MOST_ADMISSIONS)
            name = history.name
    except HistoryError as error:
        return Unknown(str(error))
    alone = {one.nodes[0]: one for one in sorted(admissions, key=lambda one: one.ended_at) if len(one.nodes) == 1}
    return Past(
        name,
        found,
        tuple(
            Together(frozenset(one.nodes), one.decision == Decision.PASS.value, one.ended_at)
            for one in admissions
            if len(one.nodes) > 1
        ),
        {node: one.decision for node, one in alone.items()},
    )


def _class(history: object, name: str) -> ClassPast:
    from rankmuster.store.history import History

    assert isinstance(history, History)
    stored = history.fingerprints(class_hash=name)
    runs = history.runs(class_hash=name, state=RunState.COMPLETE, limit=MOST_RUNS)
    return ClassPast(
        len(stored),
        frozenset(measured for run in runs for measured in _measured(run)),
        len(runs),
        max((run.started_at for run in runs), default=0.0),
    )


def _measured(run: HistoryRun) -> Iterable[Measured]:
    """`links@0123456789ab/built-in/8`: over 8 GPUs."""
    ranks = run.profile.rpartition("/")[2]
    count = int(ranks) if ranks.isdecimal() else 0
    return (Measured(one.cell.operation, one.cell.size_bytes, count, one.cell.dtype) for one in run.values)
