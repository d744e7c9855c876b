"""Snapshots as the watch makes them, and the exporter's registry as a scraper reads it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rankmuster.metrics.registry import Registry
from rankmuster.metrics.scrape import page
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.snapshot import InstanceView, PlaneView, RankView, Snapshot, WatcherView

WATCHER = WatcherView("0.1.0", started_at=500.0, period=5.0, cpu_seconds=2.0, rss_bytes=60 << 20)

VIEW = InstanceView(
    name="llm-0",
    state=Progress.ADVANCING,
    since=900.0,
    reason="tokens come",
    ranks=tuple(RankView(rank, 100 + rank, rank, doing="moving", state="S") for rank in range(4)),
    planes=(
        PlaneView(Plane.ENGINE, PlaneState.SPOKE, 1.0),
        PlaneView(Plane.RAS, PlaneState.BLIND, None, "not asked"),
    ),
    tokens_per_s=640.0,
    running=8.0,
    waiting=0.0,
    speed_kind="usual",
    speed_now=80.0,
    speed_usual=100.0,
    looks=1,
    look_seconds=0.002,
)


def snapshot(time: float, *views: InstanceView, **watcher: Any) -> Snapshot:
    """One look at `time`, unix seconds."""
    return Snapshot("node-1", time, replace(WATCHER, **watcher), views)


def shown(registry: Registry, name: str, **labels: str) -> dict[str, float]:
    """Samples of the page with these labels: the values of their other labels, joined by a space -> the value."""
    found = {}
    for family in text_string_to_metric_families(page(registry).decode()):
        for one in family.samples:
            if one.name == name and labels.items() <= one.labels.items():
                rest = " ".join(value for key, value in sorted(one.labels.items()) if key not in labels)
                found[rest] = one.value
    return found
