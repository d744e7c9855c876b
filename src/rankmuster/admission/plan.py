"""What an admission is to do, and where its facts come from: live, or from files, or from a test."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.past import NoPast, Past
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, Profile
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.history import ClassHistory
from rankmuster.model.node_path import NodePath

Measure: TypeAlias = Callable[[Profile, int], BenchmarkRun]
"""One start of the benchmark in fresh processes; the number is the attempt, from 0. Never raises for what the
benchmark does: that is the run's state."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One look at the node. `path`: None where only a stored fingerprint was given."""

    path: NodePath | None
    fingerprint: Fingerprint


@dataclass(frozen=True, slots=True)
class Plan:
    """`runs`: fresh processes at first; `retests`: more of them while a regime is borderline, at most.

    `gpus`: on how many of the node's GPUs, where that was asked for; None for the profile's or all.
    """

    profile: Profile
    runs: int = 1
    retests: int = 2
    judging: JudgeSettings = field(default_factory=JudgeSettings)
    settings: Mapping[str, str] = field(default_factory=dict)
    gpus: int | None = None


@dataclass(frozen=True, slots=True)
class Sources:
    """`take`: the fingerprint, asked before and after. `facts`: asked once the benchmark has run. `now`: unix s."""

    take: Callable[[], Taken]
    facts: Callable[[], NodeFacts]
    measure: Measure
    now: Callable[[], float]
    past: Past = field(default_factory=NoPast)


@dataclass(frozen=True, slots=True)
class Outcome:
    """`record`: sealed with its hash. `fingerprint`: as it was after the benchmark.

    `runs`: for the history, with the state under which they are to be kept. `compared`: the history that was judged
    against, for the report's pictures.
    """

    record: AdmissionRecord
    fingerprint: Fingerprint
    runs: tuple[HistoryRun, ...]
    compared: ClassHistory | None
