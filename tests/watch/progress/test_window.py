"""The window holds what was seen lately, whatever clocks, servers and scrapers do."""

from __future__ import annotations

import numpy as np
import pytest
from build_looks import WALL, facts, page, sample

from rankmuster.model.engine import EnginePage
from rankmuster.model.frameworklog import EngineWatchdog, LineOrigin
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import Stamp, StampKind
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings
from rankmuster.watch.progress.window import Window


def fill(window: Window, looks: int, *, start: float = 0.0, wall: float = WALL) -> None:
    for number in range(looks):
        now = start + 5.0 * number
        window.feed(now, wall + now, page(wall + now, number))
        window.feed(now, wall + now, sample(wall + now, 0, 50.0, 1000.0 * number))
        window.advance(now, wall + now)


def times(window: Window, now: float) -> list[float]:
    return [found.time.seconds for found in window.evidence(now).of(EnginePage) if found.time is not None]


@pytest.mark.parametrize("jump", [-7200.0, 7200.0, 86_400.0 * 400])
def test_a_wall_clock_that_is_set_neither_ages_evidence_nor_makes_it_young(jump: float) -> None:
    window = Window(DEFAULTS)
    fill(window, 10)
    fill(window, 10, start=50.0, wall=WALL + jump)
    seen = times(window, 95.0)
    assert len(seen) == 20
    assert np.allclose(np.diff(seen), 5.0)
    assert seen[-1] == pytest.approx(WALL + jump + 95.0)
    (track,) = window.evidence(95.0).of(GpuTrack)
    assert np.allclose(np.diff(track.time), 5.0)
    assert track.time[-1] == pytest.approx(WALL + jump + 95.0)


def test_samples_that_were_taken_before_the_clock_was_set_are_not_of_the_future() -> None:
    window = Window(DEFAULTS)
    fill(window, 10)
    window.feed(50.0, WALL + 50 - 7200, sample(WALL + 48, 0, 50.0, 10_000.0))
    fill(window, 2, start=55.0, wall=WALL - 7200)
    (track,) = window.evidence(60.0).of(GpuTrack)
    assert track.time[-1] == pytest.approx(WALL - 7200 + 60)
    assert np.allclose(np.diff(track.time), 5.0)


def test_what_is_older_than_the_window_is_dropped() -> None:
    window = Window(DEFAULTS)
    fill(window, 1000)
    assert len(times(window, 4995.0)) == DEFAULTS.window_seconds / 5 + 1


def test_pages_that_come_twice_or_late_find_their_place() -> None:
    window = Window(DEFAULTS)
    for now in (0.0, 10.0, 5.0, 10.0, 15.0):
        window.feed(now, WALL + now, page(WALL + now, now))
    assert [at - WALL for at in times(window, 15.0)] == [0.0, 5.0, 10.0, 15.0]


def test_samples_that_come_twice_or_late_find_their_place() -> None:
    window = Window(DEFAULTS)
    for now in (0.0, 10.0, 5.0, 10.0, 15.0):
        window.feed(now, WALL + now, sample(WALL + now, 0, now, now))
    (track,) = window.evidence(15.0).of(GpuTrack)
    assert list(track.sm_percent) == [0.0, 5.0, 10.0, 15.0]
    assert len(track.pids) == 4


def test_nothing_that_arrives_makes_it_grow_without_bound() -> None:
    settings = WatchSettings(most_pages=8, most_servers=2, most_samples=8, most_gpus=2, most_lines=5, most_polls=3)
    window = Window(settings)
    line = EngineWatchdog
    for number in range(200):
        now = number / 100
        for server in range(5):
            window.feed(now, WALL + now, page(WALL + now, 1, source=f"engine/{server}"))
            window.feed(now, WALL + now, sample(WALL + now, server, 1, 1))
        window.feed(now, WALL + now, RasPoll("ras", None, None, "none", answered=False))
        window.feed(now, WALL + now, f"a line {number}")
    evidence = window.evidence(2.0)
    assert len(evidence.of(EnginePage)) == 16
    assert [len(track.time) for track in evidence.of(GpuTrack)] == [8, 8]
    assert len(evidence.of(RasPoll)) == 3
    assert len(evidence.of(str)) == 5
    assert not evidence.of(line)


def test_another_incarnation_empties_it() -> None:
    window = Window(DEFAULTS)
    window.feed(0.0, WALL, facts("a"))
    fill(window, 5)
    window.feed(25.0, WALL + 25, facts("a"))
    assert len(times(window, 25.0)) == 5
    window.feed(26.0, WALL + 26, facts("b"))
    assert window.incarnations == 2
    assert not times(window, 26.0)
    assert Plane.ENGINE not in window.spoke
    assert window.evidence(26.0).of(InstanceFacts)[0].last_look == pytest.approx(WALL + 26)


def test_another_gpu_under_the_same_number_begins_anew() -> None:
    window = Window(DEFAULTS)
    window.feed(0.0, WALL, sample(WALL, 0, 1, 1))
    window.feed(5.0, WALL + 5, sample(WALL + 5, 0, 1, 1, uuid="GPU-other"))
    (track,) = window.evidence(5.0).of(GpuTrack)
    assert (len(track.time), track.uuid) == (1, "GPU-other")


def test_that_a_gpu_has_moved_bytes_is_not_forgotten_with_the_hour() -> None:
    window = Window(DEFAULTS)
    for number in range(1000):
        now = 5.0 * number
        window.feed(now, WALL + now, sample(WALL + now, 0, 0, 1e6 if number > 3 else 0))
        window.advance(now, WALL + now)
    (track,) = window.evidence(now).of(GpuTrack)
    assert list(track.time[:2] - WALL) == [15.0, 20.0]
    assert len(track.time) == 2 + DEFAULTS.window_seconds / 5 + 1


def test_a_line_that_is_followed_was_written_when_it_was_read() -> None:
    window = Window(DEFAULTS)
    stamp = Stamp(12.0, StampKind.LOCAL_NO_YEAR)
    origin = LineOrigin("log", 1, 0, None, None, stamp)
    window.feed(3.0, WALL + 3, EngineWatchdog(origin, "vllm", 0, 60.0, "no step"), Plane.FRAMEWORK_LOG)
    (line,) = window.evidence(4.0).of(EngineWatchdog)
    assert line.origin.stamp == Stamp(WALL + 3, StampKind.UNIX)


def test_a_failure_is_told_until_the_plane_speaks_again() -> None:
    window = Window(DEFAULTS)
    window.fail(1.0, Plane.ENGINE, "connection refused")
    assert window.failure(Plane.ENGINE) == "connection refused"
    window.feed(2.0, WALL + 2, page(WALL + 2, 1))
    assert window.failure(Plane.ENGINE) is None
