"""One look: what diagnose makes of the window, from when flat counters count, and which planes could say nothing."""

from __future__ import annotations

import pytest
from build_looks import WALL, facts, page, sample

from rankmuster.model.engine import EnginePage
from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.watch.progress.loaded import newest
from rankmuster.watch.progress.look import LookResult, look
from rankmuster.watch.progress.pauses import Pauses
from rankmuster.watch.progress.settings import DEFAULTS
from rankmuster.watch.progress.window import Window


def told(pages: list[EnginePage | None], *, failing: str | None = None) -> tuple[Window, LookResult]:
    """A window after one page in 5 s, None for a failed scrape, and the look at it."""
    window = Window(DEFAULTS)
    window.feed(0.0, WALL, facts())
    now = 0.0
    for number, one in enumerate(pages):
        now = 5.0 * number
        if one is not None:
            window.feed(now, WALL + now, one)
        else:
            window.fail(now, Plane.ENGINE, failing or "no answer")
        window.advance(now, WALL + now)
    return window, look(window, DEFAULTS, now, expected=frozenset({Plane.ENGINE}))


def test_a_counter_that_stood_still_for_want_of_requests_is_no_stop_when_one_comes() -> None:
    _, view = told([*[page(0, 100, running=0)] * 20, page(0, 100, running=1)])
    assert view.progress is not Progress.STOPPED


def test_it_is_a_stop_two_periods_after_the_request_came() -> None:
    _, view = told([*[page(0, 100, running=0)] * 20, *[page(0, 100, running=1)] * 3])
    assert view.progress is Progress.STOPPED
    assert "10 s" in view.reason


def test_gauges_that_change_are_work_and_flat_again_count_from_then_on() -> None:
    advancing = [page(0, 100.0 * number) for number in range(5)]
    prefill = [page(0, 400, kv=0.1 + number / 100) for number in range(5)]
    assert told([*advancing, *prefill])[1].progress is not Progress.STOPPED
    assert told([*advancing, *prefill, *[prefill[-1]] * 2])[1].progress is Progress.STOPPED


def test_a_failed_scrape_is_no_stop_and_is_named_when_it_lasts() -> None:
    advancing: list[EnginePage | None] = [page(0, 100.0 * number) for number in range(5)]
    _, view = told([*advancing, None], failing="connection refused")
    assert view.progress is Progress.ADVANCING
    assert view.quiet_planes == ()
    _, view = told([*advancing, *[None] * 6], failing="connection refused")
    assert view.progress is not Progress.STOPPED
    (report,) = view.quiet_planes
    assert (report.plane, report.state) == (Plane.ENGINE, PlaneState.SILENT)
    assert "30 s ago" in report.note
    assert "connection refused" in report.note


def test_a_plane_that_has_never_spoken_is_named() -> None:
    _, view = told([None])
    assert [report.state for report in view.quiet_planes] == [PlaneState.SILENT]
    assert "not spoken yet" in view.quiet_planes[0].note


def test_one_gpu_alone_is_blind_to_waiting() -> None:
    window = Window(DEFAULTS)
    window.feed(0.0, WALL, facts(ranks=1))
    for number in range(10):
        now = 5.0 * number
        window.feed(now, WALL + now, sample(WALL + now, 0, 100.0, 0.0))
        window.feed(now, WALL + now, page(WALL + now, 10.0 * number))
        window.advance(now, WALL + now)
    view = look(window, DEFAULTS, now)
    assert view.progress is Progress.ADVANCING
    assert [(report.plane, report.state) for report in view.quiet_planes] == [(Plane.HARDWARE, PlaneState.BLIND)]


def test_a_restart_is_no_stop() -> None:
    window, view = told([*[page(0, 100.0 * number) for number in range(1, 6)], page(0, 0), page(0, 5)])
    assert view.progress is not Progress.STOPPED
    assert not newest(window.pages)[0].fell


def test_two_servers_are_judged_each_by_itself() -> None:
    window = Window(DEFAULTS)
    for number in range(8):
        now = 5.0 * number
        window.feed(now, WALL + now, page(WALL + now, 100.0 * number, source="engine/a"))
        window.feed(now + 0.1, WALL + now, page(WALL + now, 700.0, source="engine/b"))
        window.advance(now + 0.2, WALL + now + 0.2)
    view = look(window, DEFAULTS, now + 0.2)
    assert view.progress is Progress.STOPPED
    assert "engine/b" in view.reason


def test_an_instance_that_pauses_by_habit_is_given_longer() -> None:
    window, pauses = Window(DEFAULTS), Pauses(DEFAULTS)
    for number in range(400):
        now = 5.0 * number
        window.feed(now, WALL + now, page(WALL + now, 100.0 * (number // 5)))
        window.advance(now, WALL + now)
        pauses.add(newest(window.pages))
    assert pauses.habit == pytest.approx(25.0)
    assert DEFAULTS.thresholds(pauses.habit).stall_seconds == pytest.approx(50.0)
    assert DEFAULTS.thresholds().stall_seconds < 10
