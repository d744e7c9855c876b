"""A metric that breaks Prometheus' rules, or could grow without bound, cannot be declared."""

from __future__ import annotations

import pytest

from rankmuster.metrics.declared import INSTANCE, Kind, Label, Metric


@pytest.mark.parametrize(
    ("name", "kind", "buckets"),
    [
        ("stops_total", Kind.COUNTER, ()),
        ("rankmuster_stops", Kind.COUNTER, ()),
        ("rankmuster_stops_total", Kind.GAUGE, ()),
        ("rankmuster_Stops_total", Kind.COUNTER, ()),
        ("rankmuster_step_count", Kind.GAUGE, ()),
        ("rankmuster_step_bucket", Kind.GAUGE, ()),
        ("rankmuster_step_seconds", Kind.HISTOGRAM, ()),
        ("rankmuster_step_seconds", Kind.GAUGE, (1.0,)),
        ("rankmuster_step_seconds", Kind.HISTOGRAM, (2.0, 1.0)),
        ("rankmuster_step_seconds", Kind.HISTOGRAM, (1.0, 1.0)),
        ("rankmuster_step_seconds", Kind.HISTOGRAM, (1.0, float("inf"))),
        ("rankmuster_step_seconds\n", Kind.GAUGE, ()),
    ],
)
def test_names_and_buckets_follow_the_rules(name: str, kind: Kind, buckets: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match=r"rankmuster|begin"):
        Metric(name, kind, "What it means.", (), buckets)


@pytest.mark.parametrize("label", ["instance", "job", "le", "quantile", "Rank", "a-b", "", "__name__"])
def test_labels_that_prometheus_sets_or_refuses_are_refused(label: str) -> None:
    with pytest.raises(ValueError, match="label"):
        Metric("rankmuster_x", Kind.GAUGE, "What it means.", (Label(label, "a label"),))


def test_a_label_stands_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        Metric("rankmuster_x", Kind.GAUGE, "What it means.", (INSTANCE, INSTANCE))
