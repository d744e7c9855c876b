"""The registry's page in Prometheus' formats, made by prometheus_client, which is imported when it is first needed."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import accumulate
from typing import TYPE_CHECKING

from rankmuster.metrics.declared import Kind, Metric
from rankmuster.metrics.registry import Registry, Sample

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


class MetricsUnavailable(Exception):
    """prometheus_client is not installed; the message says how it comes in."""


def page(registry: Registry) -> bytes:
    """The page in the text format (https://prometheus.io/docs/instrumenting/exposition_formats/).

    Raises MetricsUnavailable.
    """
    collectors = collector(registry)
    from prometheus_client import generate_latest

    return generate_latest(collectors)


def collector(registry: Registry) -> CollectorRegistry:
    """What prometheus_client's servers ask for: the values of `registry` at each scrape. Raises MetricsUnavailable."""
    try:
        from prometheus_client import CollectorRegistry
    except ImportError as error:
        raise MetricsUnavailable(
            f"metrics are served with prometheus_client, which cannot be imported here ({error}); "
            "pip install 'rankmuster[prometheus]' brings it"
        ) from error
    found = CollectorRegistry(auto_describe=False)
    found.register(_Collector(registry))
    return found


class _Collector:
    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Family]:
        for metric, samples in self._registry.samples():
            yield _family(metric, samples)


def _family(metric: Metric, samples: tuple[Sample, ...]) -> Family:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
    from prometheus_client.utils import floatToGoString

    names = [label.name for label in metric.labels]
    if metric.kind is Kind.HISTOGRAM:
        spread = HistogramMetricFamily(metric.name, metric.text, labels=names)
        bounds = [*map(floatToGoString, metric.buckets), "+Inf"]
        for sample in samples:
            spread.add_metric(
                sample.values, list(zip(bounds, accumulate(sample.buckets), strict=True)), sum_value=sample.value
            )
        return spread
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.text, labels=names)
    for sample in samples:
        family.add_metric(sample.values, sample.value)
    return family
