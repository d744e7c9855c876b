"""What the plane says, judged: a real server whose counters stop under load has stopped, whatever its engine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace

import pytest
from engine_serving import poll
from engine_versions import ENDING, STEPPING, State

from page_server import Answer, reply, serving
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.config import Mapping
from rankmuster.watch.progress.look import look
from rankmuster.watch.progress.model import Event, ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.window import Window
from rankmuster.watch.signals.engine import EngineSignal
from rankmuster.watch.signals.signal import Failed, Heard

UNIX = 1_795_986_500.0
MINE = Mapping(name="mine", running=("my_running",), steps=("my_passes_total",))
Write = Callable[[State], str]


def mine(state: State) -> str:
    return f"my_running {state.running}\n# TYPE my_passes_total counter\nmy_passes_total {state.steps}\n"


def judged(write: Write, *servers: list[State | None]) -> list[Progress]:
    """What the model says at looks 5 s apart; None: the server answers with an error."""
    now = [1000.0]
    at = [0]

    def answer(states: list[State | None]) -> Answer:
        def body() -> bytes:
            state = states[at[0]]
            return reply("", "503 Oh") if state is None else reply(write(state))

        return lambda connection, request, count: connection.sendall(body())

    found = []
    with ExitStack() as stack:
        urls = [(stack.enter_context(serving(answer(states))) + "/metrics",) for states in servers]
        of = EngineSignal(urls, (MINE,), clock=lambda: now[0], unix_now=lambda: UNIX + now[0])
        window, model = Window(DEFAULTS), ProgressModel(DEFAULTS)
        for at[0] in range(len(servers[0])):
            for said in poll(of):
                if isinstance(said, Heard):
                    window.feed(said.now, said.unix, said.observation, said.plane)
                elif isinstance(said, Failed):
                    window.fail(said.now, said.plane, said.reason)
            window.advance(now[0], UNIX + now[0])
            view = look(window, DEFAULTS, now[0], habit=model.habit, expected=frozenset({Plane.ENGINE}))
            judgement = model.step(now[0], view)
            assert judgement.event is not Event.RESTARTED or None in servers[0]
            found.append(judgement.state)
            now[0] += 5.0
    return found


def moving(count: int) -> list[State | None]:
    return [State(tokens=2400 + 100 * n, steps=300 + 20 * n, ended=2 + n, held=0.2 + n / 100) for n in range(count)]


@pytest.mark.parametrize("version", [*STEPPING, "mine"])
def test_counters_that_stop_under_load_are_a_stop_within_three_looks(version: str) -> None:
    states = moving(6)
    found = judged(STEPPING.get(version, mine), [*states, *[states[-1]] * 3])
    assert found[5] is Progress.ADVANCING
    assert Progress.STOPPED in found[6:]
    assert Progress.STOPPED not in found[:6]


@pytest.mark.parametrize("version", [*STEPPING, *ENDING, "mine"])
def test_without_a_request_it_rests(version: str) -> None:
    write = {**STEPPING, **ENDING}.get(version, mine)
    rest = replace(moving(6)[-1] or State(), running=0, waiting=0)
    found = judged(write, [*moving(6), *[rest] * 4])
    assert Progress.STOPPED not in found
    assert found[-1] is Progress.IDLE


@pytest.mark.parametrize("version", ENDING)
def test_counters_that_wait_for_ends_are_no_stop(version: str) -> None:
    states = moving(6)
    assert Progress.STOPPED not in judged(ENDING[version], [*states, *[states[-1]] * 6])


@pytest.mark.parametrize("version", ["vllm 0.33.0", "sglang 0.5.23", "mine"])
def test_scrapes_that_fail_are_no_stop(version: str) -> None:
    states = moving(12)
    states[5] = states[6] = states[7] = None
    assert Progress.STOPPED not in judged(STEPPING.get(version, mine), states)


@pytest.mark.parametrize("version", ["vllm 0.33.0", "sglang 0.5.23", "mine"])
def test_a_server_that_begins_anew_is_no_stop(version: str) -> None:
    assert Progress.STOPPED not in judged(STEPPING.get(version, mine), [*moving(6), None, *moving(6)])


def test_servers_with_other_counts_are_told_apart() -> None:
    low: list[State | None] = [State(tokens=10 + n, steps=5 + n, ended=0) for n in range(8)]
    found = judged(STEPPING["vllm 0.33.0"], moving(8), low)
    assert Progress.STOPPED not in found
    assert found[-1] is Progress.ADVANCING


def test_one_server_of_several_that_stops_is_a_stop() -> None:
    states = moving(12)
    found = judged(STEPPING["vllm 0.33.0"], states, [*states[:6], *[states[5]] * 6])
    assert Progress.STOPPED in found[6:10]
