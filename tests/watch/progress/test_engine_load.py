"""What a page's load means: requests that have ended long ago, or that wait for another instance, are no stop."""

from __future__ import annotations

import pytest
from build_looks import Watched, sample

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import unix
from rankmuster.watch.progress.model import Judgement

ENGINE = frozenset({Plane.ENGINE})
BOTH = ENGINE | {Plane.HARDWARE}
STEPS, ENDS = "sglang:realtime_tokens_total{decode}", "sglang:num_requests_total"


class Sglang:
    """A server whose gauges stay as they were when its last request ended. `replicas`: behind one page."""

    def __init__(self, expected: frozenset[Plane] = ENGINE, replicas: int = 1) -> None:
        self.watched, self.replicas = Watched(expected), replicas
        self.tokens, self.ended, self.moved = 0.0, 0.0, 0.0

    def __call__(
        self, tokens: float = 0.0, ended: float = 0.0, running: float = 1.0, sm: tuple[float, ...] = (0.0,) * 4
    ) -> Judgement:
        self.tokens += tokens
        self.ended += ended
        self.moved += 5e6 if tokens else 0.0
        watched = self.watched
        ends = {ENDS: self.ended}
        if self.replicas == 1:
            streams: tuple[EngineStream, ...] = (EngineStream("0", running, 0.0, {STEPS: self.tokens}, ends, {}),)
        else:
            ranks = [EngineStream(str(n), running, 0.0, {STEPS: self.tokens}, {}, {}) for n in range(self.replicas)]
            streams = (EngineStream("", None, None, {}, ends, {}), *ranks)
        seen: list[object] = [EnginePage("http://h/metrics", unix(watched.wall), "sglang", streams)]
        if Plane.HARDWARE in watched.expected:
            seen += [sample(watched.wall, gpu, load, self.moved) for gpu, load in enumerate(sm)]
        return watched(*seen)

    def work(self, looks: int = 6) -> None:
        for _ in range(looks):
            self(400.0, sm=(90.0,) * 4)


@pytest.mark.parametrize("expected", [ENGINE, BOTH], ids=["engine", "both"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_the_gauges_of_a_server_that_rests_are_half_a_minute_old(expected: frozenset[Plane], replicas: int) -> None:
    server = Sglang(expected, replicas)
    server.work()
    server(100.0, ended=replicas)
    for _ in range(6):
        told = server()
    assert told.state is Progress.IDLE
    assert "as many have ended" in told.reason
    for _ in range(10):
        server(running=0.0)
    server.work()
    assert server.watched.events == []


def test_a_stop_while_no_request_had_ended_is_told_at_once() -> None:
    server = Sglang()
    server.work()
    for _ in range(2):
        told = server()
    assert told.state is Progress.STOPPED


def test_a_stop_just_as_a_request_had_ended_is_told_when_its_gauges_should_have_followed() -> None:
    server = Sglang()
    server.work()
    server(100.0, ended=1.0)
    looks = [server().state for _ in range(9)]
    assert Progress.STOPPED not in looks[:6]
    assert looks[-1] is Progress.STOPPED


def test_gpus_that_wait_tell_a_stop_whatever_the_gauges_say() -> None:
    server = Sglang(BOTH)
    server.work()
    server(100.0, ended=1.0, sm=(100.0, 0.0, 100.0, 100.0))
    looks = [server(sm=(100.0, 0.0, 100.0, 100.0)) for _ in range(3)]
    assert looks[-1].state is Progress.STOPPED
    assert [(one.rank, one.role.value) for one in looks[-1].suspects if one.role.value == "culprit"] == [(1, "culprit")]


def test_a_watch_that_begins_beside_such_gauges_waits_for_the_next_ones() -> None:
    server = Sglang()
    server.tokens, server.ended = 900.0, 5.0
    for _ in range(6):
        assert server().state is not Progress.STOPPED
    for _ in range(10):
        server(running=0.0)
    assert server.watched.events == []
    late = Sglang()
    late.tokens, late.ended = 900.0, 5.0
    assert Progress.STOPPED in [late().state for _ in range(10)]


def waiting(watched: Watched, steps: float, running: float, waits: float, elsewhere: float) -> Judgement:
    stream = EngineStream("0", running, waits, {STEPS: steps}, {}, {}, elsewhere=elsewhere)
    return watched(EnginePage("http://h/metrics", unix(watched.wall), "sglang", (stream,)))


def test_requests_that_wait_for_another_instance_are_no_stop_of_this_one() -> None:
    """A decode server under a long prompt has nothing to do until the prefill server sends the cache."""
    watched = Watched(ENGINE)
    for number in range(6):
        waiting(watched, 100.0 * number, 1.0, 0.0, 0.0)
    for _ in range(3):
        waiting(watched, 500.0, 0.0, 0.0, 0.0)
    for _ in range(24):
        told = waiting(watched, 500.0, 0.0, 2.0, 2.0)
    assert told.state is Progress.UNKNOWN
    assert "2 requests waiting for another instance" in told.reason
    for number in range(6, 12):
        told = waiting(watched, 100.0 * number, 2.0, 1.0, 1.0)
    assert told.state is Progress.ADVANCING
    assert "stopped" not in watched.events
    assert watched.model.habit == 0.0


def test_what_runs_and_stands_is_a_stop_whatever_waits_elsewhere() -> None:
    watched = Watched(ENGINE)
    for number in range(6):
        waiting(watched, 100.0 * number, 1.0, 3.0, 3.0)
    for _ in range(2):
        told = waiting(watched, 500.0, 1.0, 3.0, 3.0)
    assert told.state is Progress.STOPPED


def test_requests_that_are_held_up_before_they_run_are_counted_in_the_reason() -> None:
    watched = Watched(ENGINE)
    for number in range(6):
        waiting(watched, 100.0 * number, 1.0, 0.0, 0.0)
    for _ in range(4):
        told = waiting(watched, 500.0, 0.0, 7.0, 0.0)
    assert told.state is Progress.STOPPED
    assert "no request running, 7 waiting" in told.reason
