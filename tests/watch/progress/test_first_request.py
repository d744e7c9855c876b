"""One engine of several that gets its first request when the others have long worked: kernels are compiled for it."""

from __future__ import annotations

import pytest
from build_looks import Watched

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import unix
from rankmuster.watch.progress.model import Judgement


class Pair:
    def __init__(self) -> None:
        self.watched, self.steps = Watched(frozenset({Plane.ENGINE})), [9000.0, 9000.0]

    def __call__(self, first: float, second: float, running: float = 1.0) -> Judgement:
        self.steps = [self.steps[0] + first, self.steps[1] + second]
        streams = tuple(
            EngineStream(str(key), load, 0.0, {"vllm:generation_tokens_total": steps}, {}, {})
            for key, load, steps in ((0, 1.0, self.steps[0]), (1, running, self.steps[1]))
        )
        return self.watched(EnginePage("http://h/metrics", unix(self.watched.wall), "vllm", streams))


@pytest.mark.parametrize("before", ["never asked", "restarted"])
def test_the_first_request_of_one_engine_has_the_time_of_a_first_request(before: str) -> None:
    pair = Pair()
    pair.steps[1] = 9000.0 if before == "restarted" else 0.0
    for _ in range(10):
        pair(400.0, 400.0 if before == "restarted" else 0.0, running=1.0 if before == "restarted" else 0.0)
    pair.steps[1] = 0.0
    pair(400.0, 0.0, running=0.0)
    for _ in range(16):
        pair(400.0, 0.0)
    for _ in range(4):
        told = pair(400.0, 400.0)
    assert pair.watched.events == (["restarted"] if before == "restarted" else [])
    assert told.state is Progress.ADVANCING
    for _ in range(3):
        told = pair(400.0, 0.0)
    assert told.state is Progress.STOPPED


def test_a_first_request_that_never_ends_is_a_stop_in_the_end() -> None:
    pair = Pair()
    pair.steps[1] = 0.0
    looks = [pair(400.0, 0.0).state for _ in range(30)]
    assert Progress.STOPPED not in looks[:24]
    assert looks[-1] is Progress.STOPPED


def test_counters_that_fall_again_and_again_are_told_as_what_cannot_be_told() -> None:
    pair = Pair()
    for number in range(20):
        pair.steps[0] = float(9000 - number % 2 * 100)
        told = pair(0.0, 0.0, running=0.0)
    assert told.state is Progress.UNKNOWN
    assert "its counters fell" in told.reason
