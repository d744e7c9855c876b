"""All metrics of admission and drift in the order of docs/metrics.md, and the page of one answer for a file."""

from __future__ import annotations

from rankmuster.metrics.admission import OF_ADMISSION, fill_admission
from rankmuster.metrics.declared import Metric
from rankmuster.metrics.drift import OF_DRIFT, fill_drift
from rankmuster.metrics.registry import Registry
from rankmuster.metrics.scrape import page
from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.drift import DriftReport

PARTS: tuple[tuple[str, tuple[Metric, ...]], ...] = (
    ("Admission of nodes", OF_ADMISSION),
    ("Drift of nodes and classes", OF_DRIFT),
)

ALL: tuple[Metric, ...] = tuple(metric for _, metrics in PARTS for metric in metrics)


def drift_page(report: DriftReport, *, now: float) -> str:
    """In Prometheus' text format, as the textfile collector reads it. `now`: unix seconds.

    Raises metrics.scrape.MetricsUnavailable without prometheus_client.
    """
    registry = Registry()
    fill_drift(registry, report, now=now)
    return page(registry).decode("utf-8")


def admission_page(record: AdmissionRecord) -> str:
    """The same of one admission."""
    registry = Registry()
    fill_admission(registry, record)
    return page(registry).decode("utf-8")
