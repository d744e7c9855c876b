"""The exporter as a program uses it: told of looks, signals and stops, and read over HTTP all the while."""

from __future__ import annotations

import math
import random
import threading
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from build_snapshots import VIEW, shown, snapshot

from rankmuster.metrics.declared import INSTANCE, Kind, Metric
from rankmuster.metrics.registry import MetricClash, Registry
from rankmuster.metrics.server import ListenRefused
from rankmuster.model.fault import Progress
from rankmuster.watch.export.bundle_counts import BundleCounts
from rankmuster.watch.export.exporter import Exporter
from rankmuster.watch.export.metrics import ALL, STATE
from rankmuster.watch.signals.signal import Counted
from rankmuster.watch.snapshot import StopView


@pytest.fixture
def exporter() -> Iterator[Exporter]:
    made = Exporter("127.0.0.1:0")
    yield made
    made.close()


def page_of(exporter: Exporter) -> str:
    host, port = exporter.address
    with urllib.request.urlopen(f"http://{host}:{port}/metrics", timeout=10) as answer:
        body: bytes = answer.read()
    return body.decode()


def test_what_it_is_told_is_on_its_page(exporter: Exporter) -> None:
    exporter.update(snapshot(1000.0, VIEW))
    exporter.counted("llm-0", Counted("step", (), (0.03,), (7.0,)))
    exporter.bundle_counts("llm-0", BundleCounts(taken=2))
    text = page_of(exporter)
    assert 'rankmuster_instance_state{llm_instance="llm-0",state="advancing"} 1.0' in text
    assert 'rankmuster_engine_step_seconds_bucket{le="0.03",llm_instance="llm-0"} 7.0' in text
    assert 'rankmuster_flight_dumps_total{event="taken",llm_instance="llm-0"} 2.0' in text
    assert 'rankmuster_responses_total{llm_instance="llm-0",outcome="failed",step="collect"} 0.0' in text
    assert 'rankmuster_first_odd_rank{llm_instance="llm-0"} -1.0' in text


def test_an_instance_that_has_gone_is_on_it_no_more(exporter: Exporter) -> None:
    exporter.update(snapshot(1000.0, VIEW))
    exporter.update(snapshot(1005.0))
    for name in ("instance_state", "plane_state", "first_odd_rank", "tokens_per_second"):
        assert shown(exporter.registry, f"rankmuster_{name}") == {}
    exporter.update(snapshot(1010.0, VIEW))
    assert shown(exporter.registry, "rankmuster_first_odd_rank") == {"llm-0": -1}
    exporter.update(snapshot(1015.0))
    exporter.update(snapshot(9000.0))
    assert "llm-0" not in page_of(exporter)


def test_nothing_of_the_exporter_is_missing_in_its_declaration(exporter: Exporter) -> None:
    assert {metric.name for metric in exporter.registry.metrics()} >= {metric.name for metric in ALL}
    assert {metric.name for metric in exporter.registry.metrics()} - {metric.name for metric in ALL} == {
        "rankmuster_labels_folded_total"
    }


def test_later_parts_count_in_the_same_registry(exporter: Exporter) -> None:
    drift = Metric("rankmuster_baseline_drift_ratio", Kind.GAUGE, "Now by the baseline.", (INSTANCE,))
    exporter.registry.gauge(drift).set(0.9, llm_instance="llm-0")
    assert 'rankmuster_baseline_drift_ratio{llm_instance="llm-0"} 0.9' in page_of(exporter)
    with pytest.raises(MetricClash):
        exporter.registry.register(Metric(STATE.name, Kind.GAUGE, "Something else."))


def test_a_clash_shows_before_it_listens() -> None:
    registry = Registry()
    registry.register(Metric(STATE.name, Kind.GAUGE, "Something else."))
    with pytest.raises(MetricClash):
        Exporter("127.0.0.1:0", registry)


def test_a_taken_port_is_said(exporter: Exporter) -> None:
    host, port = exporter.address
    with pytest.raises(ListenRefused, match="another program may have the port"):
        Exporter(f"{host}:{port}")


def test_a_scrape_never_meets_half_a_look(exporter: Exporter) -> None:
    views = [replace(VIEW, state=state) for state in Progress]
    exporter.update(snapshot(1000.0, VIEW))
    end = threading.Event()

    def look() -> None:
        time = 1000.0
        while not end.is_set():
            time += 5
            exporter.update(snapshot(time, views[int(time) % len(views)]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        for _ in range(20):
            states = [line for line in page_of(exporter).splitlines() if line.startswith("rankmuster_instance_state{")]
            assert sorted(line.rsplit(" ", 1)[1] for line in states) == ["0.0"] * 6 + ["1.0"]
    finally:
        end.set()
        thread.join()


def test_no_number_and_no_name_breaks_it(exporter: Exporter) -> None:
    chance = random.Random(4)
    odd = (math.nan, math.inf, -math.inf, -1.0, 0.0, 1e308, 1e-320)

    def any_of(*more: Any) -> Any:
        return chance.choice((*odd, *more))

    for index in range(300):
        views = [
            replace(
                VIEW,
                name=chance.choice(["a", "\udcff", "b\n", 'c"', "", "d" * 999]),
                since=any_of(),
                tokens_per_s=any_of(None),
                running=any_of(None),
                speed_now=any_of(None),
                speed_usual=any_of(None),
                stops=chance.choice([0, 1, -3, 10**18]),
                looks=chance.choice([0, -1, 7]),
                look_seconds=any_of(),
                event=chance.choice([None, "gone", "stopped", "?"]),
                class_=chance.choice([None, "", "?"]),
                last_stop=chance.choice([None, StopView(any_of(), "i", "r")]),
            )
            for _ in range(chance.randrange(3))
        ]
        watch = {"cpu_seconds": any_of(), "period": any_of(5.0), "started_at": any_of(), "rss_bytes": -1}
        exporter.update(snapshot(any_of(float(index), 1e18), *views, **watch))
        labels = (("source", "?"), ("collective", "\udcff"))
        exporter.counted("a", Counted(chance.choice(["step", "collective"]), labels, (any_of(),), (any_of(),)))
    exporter.update(snapshot(1e6, VIEW))
    states = shown(exporter.registry, "rankmuster_instance_state", llm_instance="llm-0")
    assert {state for state, value in states.items() if value} == {"advancing"}
    assert "rankmuster_instance_state" in page_of(exporter)
