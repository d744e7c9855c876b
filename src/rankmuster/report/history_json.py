"""The history as JSON (schema `rankmuster.history/1`): classes with their cells, runs, change points."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from rankmuster.report.history_figures import QUANTILES, CellFigures

SCHEMA = "rankmuster.history/1"


def as_json(**parts: Any) -> str:
    """One document; dataclasses as objects."""
    return json.dumps({"schema": SCHEMA, **parts}, default=_plain, ensure_ascii=False) + "\n"


def figures_json(found: Iterable[CellFigures]) -> list[dict[str, Any]]:
    """Cells with their quantiles by name."""
    names = [f"p{quantile * 100:g}" for quantile in QUANTILES]
    return [
        {
            **asdict(one.cell),
            "runs": one.runs,
            "busbw": dict(zip(names, one.busbw, strict=True)),
            "time_us": dict(zip(names, one.time_us, strict=True)),
        }
        for one in found
    ]


def _plain(value: Any) -> Any:
    return dict(value) if isinstance(value, Mapping) else asdict(value)
