"""Engines that the configuration describes: read like known ones, and told where the description does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_serving import always, counted, only, pages, poll, refusal, signal
from engine_versions import State, histogram, vllm

from page_server import reply, serving
from rankmuster.watch.config import Mapping, read
from rankmuster.watch.signals.signal import Declined, Failed, Said

MINE = Mapping(
    name="mine",
    running=("my_requests_running",),
    waiting=("my_requests_queued",),
    steps=("my_forward_passes_total", "my_batch_count"),
    ends=("my_requests_finished_total",),
    gauges=("my_cache_used",),
    paused=("my_asleep",),
    keys=("replica",),
    step_seconds="my_step_seconds",
)


def mine(passes: int, times: tuple[int, int, int] = (10, 90, 100), *, asleep: int = 0) -> str:
    page = ""
    for replica in ("a", "b"):
        of = f'{{model="m",replica="{replica}"}}'
        page += f"# TYPE my_requests_running gauge\nmy_requests_running{of} 3\nmy_requests_queued{of} 1\n"
        page += f"# TYPE my_forward_passes counter\nmy_forward_passes_total{of} {passes}\n"
        page += f"# TYPE my_batch histogram\nmy_batch_count{of} {passes}\nmy_requests_finished_total{of} 7\n"
        page += f"my_cache_used{of} 0.25\nmy_asleep{of} {asleep}\n"
    return page + histogram("my_step_seconds", times, replica="a")


def said_of(mapping: Mapping | tuple[Mapping, ...], *bodies: str) -> list[list[Said]]:
    mappings = mapping if isinstance(mapping, tuple) else (mapping,)
    with serving(lambda c, r, n: c.sendall(reply(bodies[n - 1]))) as url:
        of = signal(f"{url}/metrics", mappings=mappings)
        return [poll(of) for _ in bodies]


def test_a_mapped_engine_is_read_as_a_known_one_is() -> None:
    first, second = said_of(MINE, mine(100), mine(130, (10, 110, 121)))
    page = only(first)
    assert (page.engine, [one.key for one in page.streams]) == ("mine", ["a", "b"])
    for stream in page.streams:
        assert (stream.running, stream.waiting, stream.paused) == (3.0, 1.0, False)
        assert stream.steps == {"my_forward_passes_total": 100.0, "my_batch_count": 100.0}
        assert stream.ends == {"my_requests_finished_total": 7.0}
        assert stream.gauges == {"my_cache_used": 0.25}
    (steps,) = counted(second)
    assert (steps.labels, steps.counts) == ((("engine", "mine"),), (20.0, 1.0))
    assert not [one for one in first + second if isinstance(one, (Declined, Failed))]


def test_what_sleeps_on_purpose_is_told() -> None:
    ((said),) = said_of(MINE, mine(1, asleep=1))
    assert all(stream.paused for stream in only(said).streams)


def test_a_wrong_mapping_is_declined_with_what_is_missing_and_what_is_similar() -> None:
    page = "my_request_running 3\nmy_queued_requests 1\nother_thing 5\nmy_forward_pass_total 9\n"
    first, second = said_of(MINE, page, page)
    reason = refusal(first)
    for word in ("mine", "none of its names", "my_requests_running", "my_request_running", "my_forward_pass_total"):
        assert word in reason
    assert "other_thing" not in reason
    assert second == []  # said once


def test_a_wrong_mapping_on_a_page_with_nothing_like_it_tells_what_is_there() -> None:
    ((said),) = said_of(MINE, "zebra 1\nquagga 2\n")
    assert "there are: quagga, zebra" in refusal(said)


def test_a_page_that_has_what_was_missing_is_heard() -> None:
    first, second = said_of(MINE, "my_request_running 3\n", mine(1))
    assert refusal(first)
    assert only(second).engine == "mine"


def test_a_mapping_that_fits_in_part_is_used_and_noted() -> None:
    partly = mine(100).replace("my_cache_used", "my_cache_utilised")
    with serving(always(partly)) as url:
        of = signal(f"{url}/metrics", mappings=(MINE,))
        for _ in range(2):
            assert only(poll(of)).streams[0].running == 3.0
            (note,) = of.notes
            assert "my_cache_used" in note
            assert "my_cache_utilised" in note


@pytest.mark.parametrize(("name", "kind"), [("my_cache_used", "gauge"), ("my_info", "info")])
def test_a_step_counter_that_the_page_calls_no_counter_is_declined(name: str, kind: str) -> None:
    mapping = Mapping(name="mine", running=("my_requests_running",), steps=(name,))
    page = f"# TYPE {name} {kind}\n{name} 0.5\nmy_requests_running 3\n"
    first, second = said_of(mapping, page, page)
    assert name in refusal(first)
    assert kind in refusal(first)
    assert "gauges" in refusal(first)
    assert second == []


@pytest.mark.parametrize("types", ["x counter", "x_total counter", "x unknown", "x untyped", "y gauge", "x_total"])
def test_counters_by_whatever_name_they_are_typed_are_counters(types: str) -> None:
    mapping = Mapping(name="mine", running=("r",), steps=("x_total",))
    ((said),) = said_of(mapping, f"# TYPE {types}\nx_total 5\nr 1\n")
    assert only(said).streams[0].steps == {"x_total": 5.0}


def test_a_step_counter_without_a_type_that_falls_again_and_again_is_none() -> None:
    mapping = Mapping(name="mine", running=("r",), steps=("level",))
    said = said_of(mapping, *(f"r 1\nlevel {5 + n % 2}\n" for n in range(8)))
    assert all(pages(some) for some in said[:5])
    (reason,) = [refusal(some) for some in said[5:] if any(isinstance(one, Declined) for one in some)][:1]
    assert "level" in reason
    assert "fell 3 times" in reason


def test_one_restart_is_no_gauge() -> None:
    mapping = Mapping(name="mine", running=("r",), steps=("passes",))
    said = said_of(mapping, *(f"r 1\npasses {n}\n" for n in (500, 600, 3, 20, 40, 60)))
    assert all(pages(some) for some in said)


def test_a_mapping_without_step_counters_is_declined_and_heard() -> None:
    mapping = Mapping(name="mine", running=("r",), ends=("done_total",))
    first, second = said_of(mapping, "r 1\ndone_total 5\n", "r 1\ndone_total 5\n")
    assert "move only when requests end" in refusal(first)
    assert pages(first)
    assert [type(one).__name__ for one in second] == ["Heard"]


def test_a_name_may_select_one_value_of_a_label() -> None:
    mapping = Mapping(
        name="mine",
        running=('requests{state="active"}',),
        waiting=('requests{state="queued"}',),
        steps=('work_total{kind="pass"}',),
    )
    page = "".join(f'requests{{state="{state}"}} {n}\n' for state, n in (("active", 2), ("queued", 5), ("max", 64)))
    ((said),) = said_of(mapping, page + 'work_total{kind="pass"} 9\nwork_total{kind="idle"} 1\n')
    (stream,) = only(said).streams
    assert (stream.running, stream.waiting) == (2.0, 5.0)
    assert list(stream.steps.values()) == [9.0]


def test_a_mapping_that_is_another_instances_hides_no_known_engine() -> None:
    ((said),) = said_of(MINE, vllm((0, 33), State()))
    assert only(said).engine == "vllm"


def test_a_mapping_outranks_the_known_engine_whose_page_it_reads() -> None:
    mapping = Mapping(name="ours", running=("vllm:num_requests_running",), steps=("vllm:iteration_tokens_total_count",))
    ((said),) = said_of(mapping, vllm((0, 33), State()))
    page = only(said)
    assert (page.engine, page.streams[0].running) == ("ours", 3.0)
    assert set(page.streams[0].steps) == {"vllm:iteration_tokens_total_count"}
    same = replace(mapping, name="vllm", keys=("engine",))
    ((said),) = said_of(same, vllm((0, 33), State()))
    assert set(only(said).streams[0].steps) == {"vllm:iteration_tokens_total_count"}


def test_of_several_mappings_each_that_does_not_fit_is_told() -> None:
    others = (MINE, Mapping(name="theirs", running=("their_requests",)))
    ((said),) = said_of(others, "zebra 1\n")
    assert "mapping mine" in refusal(said)
    assert "mapping theirs" in refusal(said)
    ((said),) = said_of(others, "their_requests 1\n")
    assert only(said).engine == "theirs"


def test_a_mapping_from_a_configuration_file() -> None:
    text = "engine:\n  mappings:\n  - {name: mine, running: [r], steps: [s_total], step_seconds: t}\n"
    ((said),) = said_of(read(text, "watch.yaml").engine.mappings, "r 1\ns_total 5\n")
    assert only(said).streams[0].steps == {"s_total": 5.0}
