"""Drift as plain values of JSON (schema `rankmuster.drift/1`)."""

from __future__ import annotations

import json
import math
from typing import Any

from rankmuster.model.benchmark import Cell
from rankmuster.model.drift import SCHEMA, DriftFinding, DriftReport
from rankmuster.model.history import ChangePoint
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.report.drift_words import headline, outcome

_BOUNDS = Bounds(text=8192, members=1_000_000)


def plain(report: DriftReport) -> dict[str, Any]:
    """Everything that the report holds; `size` is a relative change, `since` and `at` are unix seconds."""
    return {
        "schema": SCHEMA,
        "outcome": outcome(report).value,
        "summary": headline(report),
        "nodes": report.nodes,
        "classes": list(report.classes),
        "stop_rollout": report.stop_rollout,
        "baseline_applies": report.baseline_applies,
        "why": list(report.why),
        "regenerate": list(report.regenerate),
        "findings": [_finding(one) for one in report.findings],
        "unknown": list(report.unknown),
        "notes": list(report.notes),
    }


def as_json(report: DriftReport) -> str:
    """One object, indented, with a line's end."""
    return json.dumps(plain(report), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finding(one: DriftFinding) -> dict[str, Any]:
    return {
        "kind": one.kind.value,
        "scope": one.scope.value,
        "class_hash": one.class_hash,
        "nodes": list(one.nodes),
        "statement": one.statement,
        "effect": one.effect,
        "size": _finite(one.size),
        "since": _finite(one.since),
        "change": None if one.change is None else to_plain(one.change, _BOUNDS),
        "point": None if one.point is None else _point(one.point),
    }


def _point(point: ChangePoint) -> dict[str, Any]:
    return {
        "id": point.id,
        "state": point.state.value,
        "class_hash": point.class_hash,
        "profile": point.profile,
        "cell": None if point.cell is None else _cell(point.cell),
        "at": _finite(point.at),
        "before": _finite(point.before),
        "after": _finite(point.after),
        "nodes": point.nodes,
        "note": point.note,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return to_plain(cell, _BOUNDS)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
