"""A run as the history keeps it: medians over iterations, the spread between ranks, and a hash that makes it one."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from statistics import median

from rankmuster.bench.same_measurement import other_measurement
from rankmuster.model.benchmark import BenchmarkRun, Cell, HistoryRun, HistoryValue, Measurement, Profile, series_key
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.unknown import Unknown
from rankmuster.store.records import with_record


class NoHistory(Exception):
    """The run cannot be kept: its fingerprint's class, kin or node is unknown, nobody knows when or on how many GPUs it
    ran, or it measured something else than the profile."""


def history_run(
    run: BenchmarkRun, fingerprint: Fingerprint, profile: Profile, *, started_at: float | None = None
) -> HistoryRun:
    """The run as the history keeps it. `started_at`: unix seconds, where the run itself does not say.

    A cell that was measured several times (cycles, roots) is kept once, by its medians. Cells that the profile
    does not have are kept too: nobody compares with them.

    Raises NoHistory, with the unknown part and its reason.
    """
    known: dict[str, str] = {}
    for name in ("class_hash", "kin_hash", "node_hash"):
        value = getattr(fingerprint, name)
        if isinstance(value, Unknown):
            raise NoHistory(
                f"the fingerprint's {name} is unknown ({value.reason}), and what is unknown equals nothing: there is "
                "no class to keep this run in; take the fingerprint where the missing part can be read"
            )
        known[name] = value
    if run.measurements and not run.members:
        raise NoHistory(
            f"nobody says how many GPUs {run.source} is of (its list of ranks is missing), and results of another "
            "number of them are no baseline; give the tool's whole output"
        )
    other = other_measurement(run, profile)
    if other:
        raise NoHistory(f"{run.source} is not what the profile {profile.name} measures: {other}")
    started = run.started_at if run.started_at is not None else started_at
    if started is None or not math.isfinite(started):
        raise NoHistory(
            f"nobody says when {run.source} was measured: nccl-tests writes local time or none; say it with "
            "--started-at"
        )
    settings = tuple(
        sorted(
            (name, f"unknown: {value.reason}" if isinstance(value, Unknown) else value)
            for name, value in fingerprint.settings.items()
        )
    )
    made = HistoryRun(
        record="",
        **known,
        host=fingerprint.host,
        profile=series_key(profile, run.tool, run.members),
        tool=run.tool,
        started_at=started,
        state=run.state,
        reason=run.reason,
        settings=settings,
        choices=run.choices,
        values=_values(run.measurements),
    )
    return with_record(made)


def rank_spread_percent(ranks_us: Sequence[float]) -> float | None:
    """(slowest - fastest) / fastest in per cent; None of fewer than two ranks."""
    if len(ranks_us) < 2 or min(ranks_us) <= 0:
        return None
    return (max(ranks_us) - min(ranks_us)) / min(ranks_us) * 100


def _values(measurements: Sequence[Measurement]) -> tuple[HistoryValue, ...]:
    by_cell: dict[Cell, list[Measurement]] = {}
    for one in measurements:
        by_cell.setdefault(one.cell, []).append(one)
    return tuple(_value(cell, by_cell[cell]) for cell in sorted(by_cell))


def _value(cell: Cell, measured: list[Measurement]) -> HistoryValue:
    spreads = [one.spread for one in measured]
    iterations = sorted(time for one in measured for time in one.iterations_us)
    spread_of_ranks = [found for one in measured if (found := rank_spread_percent(one.ranks_us)) is not None]
    return HistoryValue(
        cell,
        time_us=median(one.time_us for one in measured),
        busbw=median(one.busbw for one in measured),
        min_us=iterations[0] if iterations else _of(min, [one.min_us for one in spreads if one]),
        p50_us=median(iterations) if iterations else _of(median, [one.p50_us for one in spreads if one]),
        p99_us=_of(max, [one.p99_us for one in spreads if one]),
        cv_percent=_of(median, [one.cv_percent for one in spreads if one]),
        rank_spread_percent=max(spread_of_ranks, default=None),
    )


def _of(reduce: Callable[[list[float]], float], values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return float(reduce(known)) if known else None
