"""Every version of every engine that is known: load, progress and step times come out right of its page."""

from __future__ import annotations

from dataclasses import replace

import pytest
from engine_serving import counted, only, poll, refusal, signal
from engine_versions import ENDING, STEPPING, State, Write, vllm

from page_server import reply, serving
from rankmuster.model.engine import EnginePage
from rankmuster.watch.signals.signal import Declined, Said

BEFORE = State()
AFTER = replace(BEFORE, tokens=2431, steps=330, held=0.5, times=(10, 110, 121))
LATER = replace(AFTER, ended=5)
ALL = {**STEPPING, **ENDING}
NO_TIMES = {"triton-tensorrt-llm"}


def watched(write: Write, *states: State) -> list[list[Said]]:
    """What the signal says at each poll of a server that is in each of these states in turn."""
    with serving(lambda connection, request, count: connection.sendall(reply(write(states[count - 1])))) as url:
        of = signal(f"{url}/metrics")
        return [poll(of) for _ in states]


def streams(write: Write, *states: State) -> list[EnginePage]:
    return [only(said) for said in watched(write, *states)]


@pytest.mark.parametrize("version", ALL)
def test_the_load_is_told(version: str):
    (page,) = streams(ALL[version], BEFORE)
    (stream,) = [one for one in page.streams if one.running is not None]
    assert (stream.running, stream.waiting, stream.paused) == (3.0, 1.0, False)
    assert page.engine in version


@pytest.mark.parametrize("version", STEPPING)
def test_a_step_moves_step_counters_and_no_other(version: str):
    before, after = streams(STEPPING[version], BEFORE, AFTER)
    moved = {
        name
        for one, other in zip(before.streams, after.streams, strict=True)
        for name, value in other.steps.items()
        if value > one.steps[name]
    }
    assert moved
    assert all(one.ends == other.ends for one, other in zip(before.streams, after.streams, strict=True))


@pytest.mark.parametrize("version", ALL)
def test_an_end_moves_counters_of_ends_and_cache_use_moves_a_gauge(version: str):
    before, after, later = streams(ALL[version], BEFORE, AFTER, LATER)

    def of(page: EnginePage, kind: str) -> dict[str, float]:
        return {f"{one.key} {k}": v for one in page.streams for k, v in getattr(one, kind).items()}

    assert any(value > of(after, "ends")[name] for name, value in of(later, "ends").items())
    assert any(value != of(before, "gauges")[name] for name, value in of(after, "gauges").items())


@pytest.mark.parametrize("version", ENDING)
def test_a_page_whose_counters_wait_for_ends_is_declined_once(version: str):
    first, second = watched(ENDING[version], BEFORE, AFTER)
    assert "move only when requests end" in refusal(first)
    assert not [one for one in second if isinstance(one, Declined)]
    assert all(not stream.steps for stream in only(second).streams)


@pytest.mark.parametrize("version", STEPPING)
def test_a_page_that_tells_steps_is_not_declined(version: str):
    assert not [one for said in watched(STEPPING[version], BEFORE, AFTER) for one in said if isinstance(one, Declined)]


@pytest.mark.parametrize("version", sorted(set(ALL) - NO_TIMES))
def test_how_long_steps_took_is_counted_between_two_scrapes(version: str):
    first, second = watched(ALL[version], BEFORE, AFTER)
    assert counted(first) == []
    (steps,) = counted(second)
    assert steps.what == "step"
    assert steps.labels == (("engine", only(second).engine),)
    # 20 more between 20 and 40 ms, one above all finite bounds.
    assert steps.values == pytest.approx((0.03, 0.04))
    assert steps.counts == (20.0, 1.0)


@pytest.mark.parametrize("version", ["vllm 0.11.2", "vllm 0.33.0", "sglang 0.5.2", "sglang 0.5.23"])
def test_sleep_on_purpose_is_told(version: str):
    (page,) = streams(ALL[version], replace(BEFORE, paused=True))
    assert any(stream.paused for stream in page.streams)


def test_replicas_of_one_page_are_streams_of_their_own():
    page = "".join(vllm((0, 33), replace(BEFORE, running=n)).replace('engine="0"', f'engine="{n}"') for n in range(4))
    (read,) = streams(lambda state: page, BEFORE)
    assert [(one.key, one.running) for one in read.streams] == [(str(n), float(n)) for n in range(4)]
