"""A baseline of one instance: what its windows looked like while it was well, window by window.

A window is kept as quantiles, not as a mean, and windows are kept apart, so that a later one can be judged by how much
such windows differ among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from rankmuster.diagnose.slow.keys import VARIOUS
from rankmuster.model.flight import Floats
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.slow import GRID, Operation, OperationKey, Pattern, SlowReport, Surroundings, Timing
from rankmuster.model.slow_baseline import SCHEMA, Baseline, History, Sample, SavedWindow

MOST_WINDOWS = 16
"""Windows kept, the newest: more than an incident's worth of days, and a file that a person can still open."""

WORTH_KEEPING = 0.01
"""Share of wall time from which waiting for a rank is written down; what is not counts as none."""

FEWEST_COLLECTIVES = 20
"""Collectives of one kind in a window without which it is no sample (as `late_rounds`)."""


class BaselineRefused(ValueError):
    """This measurement cannot be one of the baseline's windows; the message says why and what to do."""


def add(baseline: Baseline | None, report: SlowReport, *, even_if_slow: bool = False) -> Baseline:
    """The baseline with one more window; None begins one.

    Raises BaselineRefused where the report has no sound durations, shows slowness (unless `even_if_slow`), overlaps a
    window that is in it already, or is of other surroundings.
    """
    _fit(report, even_if_slow)
    if baseline is not None:
        differing = unlike(baseline, report)
        if differing:
            raise BaselineRefused(f"this is not what the baseline is of: {'; '.join(differing)}; begin a new one")
        for window in baseline.windows:
            if window.start < report.window[1] and report.window[0] < window.end:
                raise BaselineRefused(
                    "this window overlaps one that the baseline holds: the same dumps twice are no second measurement"
                )
    windows = baseline.windows if baseline is not None else ()
    histories = {one.key: one for one in baseline.operations} if baseline is not None else {}
    for key, operations in by_kind(report).items():
        old = histories.get(key, History(key, (), ()))
        transfer = sample(operations, lambda one: one.grid)
        wait = sample(operations, lambda one: one.wait_grid)
        if transfer is not None and wait is not None and transfer.n >= FEWEST_COLLECTIVES:
            histories[key] = History(key, (*old.transfer, transfer)[-MOST_WINDOWS:], (*old.wait, wait)[-MOST_WINDOWS:])
    waited = {str(rank): _short(share) for rank, share in waited_for(report).items() if share >= WORTH_KEEPING}
    saved = SavedWindow(report.window[0], report.window[1], waited)
    return Baseline(
        schema=SCHEMA,
        disturbed=is_disturbed(report),
        surroundings=_known(baseline.surroundings, report.surroundings) if baseline else report.surroundings,
        grid=GRID,
        windows=(*windows, saved)[-MOST_WINDOWS:],
        operations=tuple(histories.values()),
    )


def _fit(report: SlowReport, even_if_slow: bool) -> None:
    if report.timing is not Timing.EVENTS or not any(one.transfer is not None for one in report.operations):
        raise BaselineRefused("there are no durations to save: run the instance with TORCH_NCCL_ENABLE_TIMING=1")
    if not 0 <= report.window[0] < report.window[1]:
        raise BaselineRefused(f"a window from {report.window[0]} to {report.window[1]} unix seconds is none")
    if report.slow and not even_if_slow:
        late = [one.rank for one in report.late if one.pattern in (Pattern.PERSISTENT, Pattern.TAIL)]
        what = f"{ranks_text(late)} late" if late else "transfers slow"
        raise BaselineRefused(
            f"this window is slow itself ({what}): as a baseline it would make that look ordinary; save one of a time "
            "when the instance is well"
        )


def by_kind(report: SlowReport) -> dict[OperationKey, list[Operation]]:
    """Operations that are compared, over all groups of a kind; hosts left out, which not every evidence knows."""
    found: dict[OperationKey, list[Operation]] = {}
    for one in report.operations:
        if one.transfer is not None and one.key.size != VARIOUS and one.ranks == one.members:
            found.setdefault(replace(one.key, hosts=0), []).append(one)
    return found


def sample(operations: Iterable[Operation], of: Callable[[Operation], Floats | None]) -> Sample | None:
    """The distribution over groups, from each one's quantiles, weighed by how many it has; None for none."""
    parts = [(one.collectives, grid) for one in operations if (grid := of(one)) is not None]
    if not parts:
        return None
    probabilities = np.array(GRID)
    # Every quantile stands for the probability about it.
    edges = np.concatenate([[0.0], (probabilities[1:] + probabilities[:-1]) / 2, [1.0]])
    each = np.diff(edges)
    values = np.concatenate([grid for _, grid in parts])
    weights = np.concatenate([each * count for count, _ in parts])
    pooled = parts[0][1]
    if len(parts) > 1:
        order = np.argsort(values, kind="stable")
        values, weights = values[order], weights[order]
        middles = (np.cumsum(weights) - weights / 2) / weights.sum()
        pooled = np.interp(probabilities, middles, values)
        pooled[0], pooled[-1] = values[0], values[-1]
    medians = [float(grid[GRID.index(0.5)]) for _, grid in parts]
    return Sample(
        n=sum(count for count, _ in parts),
        grid=tuple(_short(value) for value in pooled.tolist()),
        lowest_median=_short(min(medians)),
        highest_median=_short(max(medians)),
    )


def waited_for(report: SlowReport) -> dict[int, float]:
    """Rank -> share of the window that others waited for it, in the group where that is most."""
    if report.seconds <= 0:
        return {}
    group_of = np.array([one.group for one in report.operations], dtype=np.int64)
    table = report.ranks
    if not len(table):
        return {}
    pairs = np.stack([group_of[table.operation], table.rank], axis=1)
    distinct, which = np.unique(pairs, axis=0, return_inverse=True)
    seconds = np.bincount(which.reshape(-1), weights=table.waited_s, minlength=len(distinct))
    found: dict[int, float] = {}
    for (_, rank), waited in zip(distinct.tolist(), seconds.tolist(), strict=True):
        found[rank] = max(found.get(rank, 0.0), waited / report.seconds)
    return found


def is_disturbed(report: SlowReport) -> bool:
    """Whether dumps with stacks may have slowed all of the window."""
    return report.disturbed or report.only_disturbed


def unlike(baseline: Baseline, report: SlowReport) -> tuple[str, ...]:
    """Why the two are not compared; empty where they can be."""
    found = differences(baseline.surroundings, report.surroundings)
    if baseline.disturbed == is_disturbed(report):
        return found
    which = "those of the baseline, not this one" if baseline.disturbed else "this window, not those of the baseline"
    return (*found, f"dumps with stacks slowed {which}: dump without them each time (TORCH_INCLUDE_STACK_TRACE=0)")


def differences(before: Surroundings, now: Surroundings) -> tuple[str, ...]:
    """In what the two are not alike, as far as both know."""
    pairs = (
        ("instance", before.instance, now.instance),
        ("world size", before.world_size, now.world_size),
        ("communication library", before.comm_library, now.comm_library),
        ("Flight Recorder (and with it torch)", before.recorder, now.recorder),
        ("GPUs", before.gpus, now.gpus),
        ("hosts", before.hosts, now.hosts),
        ("groups", ", ".join(before.layouts), ", ".join(now.layouts)),
    )
    return tuple(f"{name}: {old} then, {new} now" for name, old, new in pairs if old and new and old != new)


def unsaid(before: Surroundings, now: Surroundings) -> tuple[str, ...]:
    """What one side does not know, so that it is taken to be the same."""
    pairs = (
        ("instance", before.instance, now.instance),
        ("world size", before.world_size, now.world_size),
        ("communication library", before.comm_library, now.comm_library),
        ("GPUs", before.gpus, now.gpus),
        ("hosts", before.hosts, now.hosts),
    )
    return tuple(name for name, old, new in pairs if not old or not new)


def _known(before: Surroundings, now: Surroundings) -> Surroundings:
    """What either side knows."""
    return Surroundings(
        instance=before.instance or now.instance,
        world_size=before.world_size or now.world_size,
        comm_library=before.comm_library or now.comm_library,
        recorder=before.recorder or now.recorder,
        gpus=before.gpus or now.gpus,
        hosts=before.hosts or now.hosts,
        layouts=before.layouts or now.layouts,
    )


def _short(value: float) -> float:
    """Six digits: more than a clock has, and a third of the file."""
    return float(f"{value:.6g}")
