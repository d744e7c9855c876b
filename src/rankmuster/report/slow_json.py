"""Slow collectives as plain values of JSON (schema `rankmuster.slow/1`); keys say their units."""

from __future__ import annotations

import math
from typing import Any

from rankmuster.model.flight import Floats
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.model.slow import HostSkew, Operation, SlowReport, distribution
from rankmuster.model.slow_baseline import Comparison
from rankmuster.report.slow_words import comparison_headline, headline

SCHEMA = "rankmuster.slow/1"

_BOUNDS = Bounds(text=4096, members=1_000_000)


def plain(report: SlowReport, comparison: Comparison | None = None) -> dict[str, Any]:
    """Everything but the single collectives, which parquet has."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "summary": headline(report),
        "slow": [one.value for one in report.slow],
        "timing": report.timing.value,
        "window_unix_s": {"from": report.window[0], "to": report.window[1]},
        "disturbed": report.disturbed or report.only_disturbed,
        "judged_groups": report.judged,
        "left_out": report.left_out,
        "surroundings": to_plain(report.surroundings, _BOUNDS),
        "late": [to_plain(one, _BOUNDS) for one in report.late],
        "slow_groups": [{**to_plain(one, _BOUNDS), "ratio": _finite(one.ratio)} for one in report.slow_groups],
        "grown": [to_plain(one, _BOUNDS) for one in report.grown],
        "operations": [_operation(one) for one in report.operations],
        "ranks": _ranks(report),
        "enqueued_late": [_skew(one) for one in report.host_skew],
        "notes": list(report.notes),
    }
    if comparison is not None:
        found["baseline"] = _comparison(comparison)
    return found


def _operation(one: Operation) -> dict[str, Any]:
    return {
        "index": one.index,
        "group": one.label,
        "members": list(one.members),
        "without_window": [rank for rank in one.members if rank not in set(one.ranks)],
        **to_plain(one.key, _BOUNDS),
        "bytes": one.bytes,
        "symmetric": one.symmetric,
        "collectives": one.collectives,
        "transfer_ms": to_plain(one.transfer, _BOUNDS) if one.transfer is not None else None,
        "wait_ms": to_plain(one.wait, _BOUNDS) if one.wait is not None else None,
        "bus_gb_per_s": one.bus_gb_per_s,
        "share_of_time": one.busy,
        "change": to_plain(one.change, _BOUNDS) if one.change is not None else None,
    }


def _ranks(report: SlowReport) -> list[dict[str, Any]]:
    table = report.ranks
    return [
        {
            "operation": int(table.operation[row]),
            "rank": int(table.rank[row]),
            "n": int(table.count[row]),
            "last": int(table.last[row]),
            "waited_s": float(table.waited_s[row]),
            "duration_ms": _distribution(int(table.count[row]), table.duration[row]),
            "wait_ms": _distribution(int(table.count[row]), table.wait[row]),
            "behind_ms": _distribution(int(table.count[row]), table.behind[row]),
        }
        for row in range(len(table))
    ]


def _distribution(count: int, row: Floats) -> dict[str, Any] | None:
    found = distribution(count, row)
    return to_plain(found, _BOUNDS) if found is not None else None


def _skew(one: HostSkew) -> dict[str, Any]:
    return {
        "group": one.label,
        "rank": one.rank,
        "behind_ms": to_plain(one.behind, _BOUNDS),
        "clock_error_ms": one.error_ms,
        "own_offset_removed": one.own_removed,
    }


def _comparison(comparison: Comparison) -> dict[str, Any]:
    return {
        "summary": comparison_headline(comparison),
        "differs": list(comparison.differs),
        "taken_as_same": list(comparison.taken_as_same),
        "windows": comparison.windows,
        "provisional": comparison.provisional,
        "compared": [
            {
                **to_plain(one.key, _BOUNDS),
                "n": one.n,
                "windows": one.windows,
                "share_of_time": one.share,
                "groups": [{"group": label, "ratio": _finite(ratio)} for label, ratio in one.groups],
                "ratios": [{**to_plain(ratio, _BOUNDS), "ratio": _finite(ratio.ratio)} for ratio in one.ratios],
            }
            for one in comparison.compared
        ],
        "ranks": [to_plain(one, _BOUNDS) for one in comparison.ranks],
        "new": [to_plain(one, _BOUNDS) for one in comparison.new],
        "gone": [to_plain(one, _BOUNDS) for one in comparison.gone],
    }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None
