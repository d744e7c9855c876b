"""A plane that falls silent at the moment of the fault neither excuses a stop nor is it health."""

from __future__ import annotations

import pytest
from build_looks import Watched, page, sample

from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.model.stamp import unix

HARDWARE = frozenset({Plane.HARDWARE})
BOTH = HARDWARE | {Plane.ENGINE}


def gpus(watched: Watched, load: tuple[float, ...], moved: float, numbers: range = range(4)) -> list[object]:
    return [sample(watched.wall, gpu, load[gpu], moved) for gpu in numbers]


def working(expected: frozenset[Plane]) -> tuple[Watched, float, float]:
    watched, steps, moved = Watched(expected), 0.0, 0.0
    for _ in range(10):
        steps, moved = steps + 400.0, moved + 5e6
        pages = [page(watched.wall, steps)] if expected == BOTH else []
        watched(*pages, *gpus(watched, (90.0,) * 4, moved))
    return watched, steps, moved


def test_counters_that_stand_are_a_stop_though_the_last_samples_of_gpus_moved() -> None:
    watched, steps, _ = working(BOTH)
    looks = [watched(page(watched.wall, steps), failing=Plane.HARDWARE).state for _ in range(3)]
    assert Progress.STOPPED in looks


def test_gpus_that_are_not_seen_any_more_do_not_advance() -> None:
    watched, _, _ = working(HARDWARE)
    looks = [watched(failing=Plane.HARDWARE).state for _ in range(8)]
    assert looks[-1] is Progress.UNKNOWN


def test_one_gpu_that_is_not_seen_any_more_does_not_hide_that_the_others_wait() -> None:
    watched, _, moved = working(HARDWARE)
    looks = [watched(*gpus(watched, (100.0,) * 4, moved, range(3))).state for _ in range(8)]
    assert looks[-1] is Progress.STOPPED


def test_samples_that_come_every_half_minute_still_excuse_a_long_prefill() -> None:
    """An exporter's page at its default interval."""
    watched, steps, moved = Watched(BOTH), 0.0, 0.0
    for number in range(60):
        steps, moved = steps + (400.0 if number < 30 else 0.0), moved + 5e6
        seen = gpus(watched, (100.0,) * 4, moved) if number % 6 == 0 else []
        watched(page(watched.wall, steps), *seen)
    assert watched.events == []


@pytest.mark.parametrize("paused", [True, False])
def test_gpus_that_wait_for_new_weights_while_the_engine_is_paused_are_no_stop(paused: bool) -> None:
    watched, steps, moved = working(BOTH)
    for _ in range(12):
        stream = EngineStream("0", 0.0, 0.0, {"vllm:generation_tokens_total": steps}, {}, {}, paused)
        seen = EnginePage("engine/s", unix(watched.wall), "vllm", (stream,))
        told = watched(seen, *gpus(watched, (100.0,) * 4, moved))
    if paused:
        assert "stopped" not in watched.events
        assert "weight update" in told.reason
    else:
        assert told.state is Progress.STOPPED
