"""What is counted is what is shown; label sets are bounded and go; two meanings of one name do not pass."""

from __future__ import annotations

import math
import subprocess
import sys
import threading

import pytest
from prometheus_client.parser import text_string_to_metric_families

from rankmuster.metrics.declared import INSTANCE, OTHER, Kind, Label, Metric
from rankmuster.metrics.registry import MetricClash, Registry
from rankmuster.metrics.scrape import page

STOPS = Metric("rankmuster_stops_total", Kind.COUNTER, "Stops.", (INSTANCE, Label("class", "of it", ("a", "b"))))
LOAD = Metric("rankmuster_load", Kind.GAUGE, "Requests.", (Label("name", "of it", most=3),))
STATE = Metric("rankmuster_state", Kind.GAUGE, "State.", (INSTANCE, Label("state", "now", ("up", "down"))))
STEP = Metric("rankmuster_step_seconds", Kind.HISTOGRAM, "Steps.", (INSTANCE,), (0.1, 1.0))
PLAIN = Metric("rankmuster_plain_total", Kind.COUNTER, "Plain.")


def shown(registry: Registry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """The page, as somebody else's parser reads it."""
    families = text_string_to_metric_families(page(registry).decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for family in families for one in family.samples}


def test_counts_add_up_and_follow_a_count_that_begins_anew() -> None:
    registry = Registry()
    counter = registry.counter(STOPS)
    counter.add(0, llm_instance="x", **{"class": "a"})
    counter.add(2, llm_instance="x", **{"class": "a"})
    registry.counter(STOPS).add(llm_instance="x", **{"class": "a"})
    plain = registry.counter(PLAIN)
    for total in (5.0, 7.0, 7.0, 1.0, math.nan, -3.0, math.inf, 4.0):
        plain.follow(total)
    found = shown(registry)
    assert found["rankmuster_stops_total", (("class", "a"), ("llm_instance", "x"))] == 3
    assert found["rankmuster_plain_total", ()] == 7 + 1 + 3


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf])
def test_a_count_never_falls(value: float) -> None:
    with pytest.raises(ValueError, match="rankmuster_plain_total cannot rise"):
        Registry().counter(PLAIN).add(value)


def test_whole_buckets_are_observed_at_once() -> None:
    registry = Registry()
    histogram = registry.histogram(STEP)
    histogram.observe(0.1, 5, llm_instance="x")  # a bound belongs to the bucket below it
    histogram.observe_all([(0.5, 2), (20.0, 1), (0.0, 1)], llm_instance="x")
    found = shown(registry)
    name = ("llm_instance", "x")
    assert [found["rankmuster_step_seconds_bucket", (("le", le), name)] for le in ("0.1", "1.0", "+Inf")] == [6, 8, 9]
    assert found["rankmuster_step_seconds_count", (name,)] == 9
    assert found["rankmuster_step_seconds_sum", (name,)] == pytest.approx(21.5)
    for bad in ((-1.0, 1.0), (math.nan, 1.0), (1.0, -1.0), (1.0, math.inf)):
        with pytest.raises(ValueError, match="cannot observe"):
            histogram.observe(*bad, llm_instance="x")


def test_values_that_are_not_listed_are_other_and_counted() -> None:
    registry = Registry()
    for name in ("a", "c", "d", ""):
        registry.counter(STOPS).add(llm_instance="x", **{"class": name})
    found = shown(registry)
    assert found["rankmuster_stops_total", (("class", OTHER), ("llm_instance", "x"))] == 3
    assert found["rankmuster_labels_folded_total", (("metric", "rankmuster_stops_total"),)] == 3


def test_label_sets_are_bounded_and_make_room_when_they_go() -> None:
    registry = Registry()
    load = registry.gauge(LOAD)
    for index in range(1000):
        load.set(index, name=f"n{index}")
    assert len([key for key in shown(registry) if key[0] == "rankmuster_load"]) == 4  # three, and other
    load.remove(name="n0")
    load.set(7.0, name="late")
    found = shown(registry)
    assert found["rankmuster_load", (("name", "late"),)] == 7
    assert ("rankmuster_load", (("name", "n0"),)) not in found
    load.clear()
    assert not [key for key in shown(registry) if key[0] == "rankmuster_load"]


def test_who_has_gone_is_forgotten() -> None:
    registry = Registry()
    for name in ("x", "y"):
        registry.gauge(STATE).choose("state", "up", llm_instance=name)
        registry.counter(STOPS).add(llm_instance=name, **{"class": "a"})
        registry.histogram(STEP).observe(1, llm_instance=name)
    registry.forget("llm_instance", "x")
    left = [key for key in shown(registry) if ("llm_instance", "x") in key[1]]
    assert {name for name, _ in left} & {"rankmuster_state"} == set()
    assert "rankmuster_stops_total" in {name for name, _ in left}
    registry.forget("llm_instance", "x", counts=True)
    assert not [key for key in shown(registry) if ("llm_instance", "x") in key[1]]
    assert len([key for key in shown(registry) if ("llm_instance", "y") in key[1]]) > 4


def test_an_unknown_value_is_absent_and_not_zero() -> None:
    registry = Registry()
    load = registry.gauge(LOAD)
    load.set(1.0, name="a")
    load.set(None, name="a")
    load.set(math.nan, name="b")
    assert not [key for key in shown(registry) if key[0] == "rankmuster_load"]


def test_a_state_nobody_declared_is_shown_as_other() -> None:
    registry = Registry()
    registry.gauge(STATE).choose("state", "sideways", llm_instance="x")
    found = shown(registry)
    values = {key[1][1][1]: value for key, value in found.items() if key[0] == "rankmuster_state"}
    assert values == {"up": 0, "down": 0, OTHER: 1}


@pytest.mark.parametrize("name", ["\udcff\udc00", "a\nb", 'quo"te', "back\\slash", "ünïcödé", "x" * 5000, "\0"])
def test_no_name_breaks_the_page(name: str) -> None:
    registry = Registry()
    registry.gauge(LOAD).set(1.0, name=name)
    registry.gauge(LOAD).set(2.0, name="plain")
    found = shown(registry)
    assert found["rankmuster_load", (("name", "plain"),)] == 2
    assert len([key for key in found if key[0] == "rankmuster_load"]) == 2


def test_one_name_with_two_meanings_is_an_error_when_it_is_registered() -> None:
    registry = Registry()
    registry.register(STOPS, STOPS)
    other = Metric(STOPS.name, Kind.COUNTER, STOPS.text, (INSTANCE,))
    with pytest.raises(MetricClash, match=r"registered twice.*llm_instance, class.*llm_instance"):
        registry.register(other)
    with pytest.raises(ValueError, match="is a counter, not a gauge"):
        registry.gauge(STOPS)


def test_labels_that_do_not_fit_are_named() -> None:
    registry = Registry()
    with pytest.raises(ValueError, match=r"has the labels llm_instance, class; it was given class, pid"):
        registry.counter(STOPS).add(1, pid="7", **{"class": "a"})
    assert not [key for key in shown(registry) if key[0] == "rankmuster_stops_total"]


def test_a_look_is_seen_whole_or_not_at_all() -> None:
    registry = Registry()
    gauge = registry.gauge(STATE)
    end = threading.Event()

    def turn() -> None:
        while not end.is_set():
            for state in ("up", "down"):
                with registry.together():
                    gauge.clear()
                    gauge.choose("state", state, llm_instance="x")

    gauge.choose("state", "up", llm_instance="x")
    thread = threading.Thread(target=turn)
    thread.start()
    try:
        for _ in range(200):
            samples = dict(registry.samples())[STATE]
            assert sorted(one.value for one in samples) == [0.0, 1.0]
    finally:
        end.set()
        thread.join()


def test_counting_needs_no_client_and_serving_says_how_to_get_it() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None
from rankmuster.metrics.declared import Kind, Metric
from rankmuster.metrics.registry import Registry
from rankmuster.metrics.scrape import MetricsUnavailable
from rankmuster.metrics.server import PageServer
registry = Registry()
registry.counter(Metric("rankmuster_x_total", Kind.COUNTER, "X.")).add(1)
try:
    PageServer("127.0.0.1:0", registry)
except MetricsUnavailable as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'rankmuster[prometheus]'" in done.stdout
