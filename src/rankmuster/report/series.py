"""Curves of counters on the job's clock: the engine's tokens and requests, and the GPUs' link rates."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.hardware import GpuTrack
from rankmuster.model.job import Job
from rankmuster.model.stamp import Stamp

Floats = NDArray[np.float64]

MIN_SPAN_S = 1.0
"""A time axis is at least this long, so that a single observation can be drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """`value` at `time` (unix seconds); NaN breaks the line."""

    time: Floats
    value: Floats


def unix_seconds(stamp: Stamp | None) -> float | None:
    """Unix seconds of an anchored stamp, None for one without year or zone."""
    return stamp.unix_seconds if stamp is not None else None


def step(values: Floats, time: Floats) -> Floats:
    """Increase per second of a counter between samples, shape (samples - 1,); NaN where it was reset or unknown."""
    if len(values) < 2:
        return np.empty(0)
    seconds = np.diff(time)
    with np.errstate(divide="ignore", invalid="ignore"):
        rate = np.where(seconds > 0, np.diff(values) / seconds, np.nan)
    return np.where(rate >= 0, rate, np.nan)


def link_rate(track: GpuTrack) -> Curve:
    """KiB/s over the GPU's links, each value at the end of its interval.

    NVLink and RDMA, both ways; PCIe, which carries other traffic too, only where neither is known.
    """
    links = [track.nvlink_tx_kib, track.nvlink_rx_kib, track.rdma_tx_kib, track.rdma_rx_kib]
    if all(bool(np.all(np.isnan(column))) for column in links):
        links = [track.pcie_tx_kib, track.pcie_rx_kib]
    # per counter, not of their sum: one that is missing from a sample must not look like a jump
    rates = np.vstack([step(column, track.time) for column in links])
    known = ~np.isnan(rates)
    total = np.where(known.any(axis=0), np.where(known, rates, 0.0).sum(axis=0), np.nan)
    return Curve(track.time[1:], total)


@dataclass(frozen=True, slots=True, eq=False)
class EngineCurves:
    """One engine (one data-parallel replica). `moves_per_request`: its tokens are counted only when a request ends."""

    label: str
    sources: tuple[str, ...]
    tokens: Curve  # counted since the engine started
    running: Curve
    waiting: Curve
    moves_per_request: bool

    @property
    def token_rate(self) -> Curve:
        """Tokens per second, each value at the end of its interval."""
        return Curve(self.tokens.time[1:], step(self.tokens.value, self.tokens.time))


def _number(value: float | None) -> float:
    return np.nan if value is None else value


def engine_curves(job: Job) -> tuple[EngineCurves, ...]:
    """Per engine of the pages that carry an anchored time, in the order of first sight."""
    seen: dict[str, list[tuple[float, str, float, float, float, bool]]] = {}
    for page in job.pages:
        time = unix_seconds(page.time)
        if time is None:
            continue
        for stream in page.streams:
            counters = stream.steps or stream.ends
            tokens = float(sum(counters.values())) if counters else float("nan")
            row = (time, page.source, tokens, _number(stream.running), _number(stream.waiting), not stream.steps)
            seen.setdefault(f"{page.engine} {stream.key}".strip(), []).append(row)
    curves = []
    for label, rows in seen.items():
        rows.sort(key=lambda row: row[0])
        columns = np.array([[row[0], row[2], row[3], row[4]] for row in rows], dtype=np.float64)
        times = columns[:, 0]
        curves.append(
            EngineCurves(
                label=label,
                sources=tuple(row[1] for row in rows),
                tokens=Curve(times, columns[:, 1]),
                running=Curve(times, columns[:, 2]),
                waiting=Curve(times, columns[:, 3]),
                moves_per_request=all(row[5] for row in rows),
            )
        )
    return tuple(curves)


def bounds(window: tuple[float | None, float | None], times: Iterable[Floats]) -> tuple[float, float] | None:
    """The common time axis: the window where both ends are known, else what the series cover; None without any time."""
    start, end = window
    stamps = np.concatenate([np.empty(0), *times])
    stamps = stamps[np.isfinite(stamps)]
    if len(stamps):
        start = float(stamps.min()) if start is None else start
        end = float(stamps.max()) if end is None else end
    if start is None or end is None or not (np.isfinite(start) and np.isfinite(end)):
        return None
    return start, max(end, start + MIN_SPAN_S)
