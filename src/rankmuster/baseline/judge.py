"""Judges a node's runs against the distribution of its own kind, each operation and size regime apart."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.baseline.floors import FloorInput
from rankmuster.baseline.thresholds import JudgeSettings
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.history import ClassHistory
from rankmuster.model.judgement import RegimeJudgement


def judge(
    runs: Sequence[BenchmarkRun],
    history: ClassHistory | None,
    *,
    settings: JudgeSettings = JudgeSettings(),
    floor: FloorInput | None = None,
) -> tuple[RegimeJudgement, ...]:
    """Being built."""
    raise NotImplementedError
