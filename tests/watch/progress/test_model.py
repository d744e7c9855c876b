"""Looks in, states and events out: what calls somebody, how often, and what never does."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from build_looks import view

from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.look import LookResult
from rankmuster.watch.progress.model import Event, Judgement, ProgressModel
from rankmuster.watch.progress.settings import DEFAULTS

STOPPED, ADVANCING, IDLE, UNKNOWN = Progress.STOPPED, Progress.ADVANCING, Progress.IDLE, Progress.UNKNOWN


def steps(views: Iterable[LookResult], model: ProgressModel | None = None, start: float = 0.0) -> list[Judgement]:
    model = model or ProgressModel()
    return [model.step(start + 5.0 * number, one) for number, one in enumerate(views)]


def events(judged: list[Judgement]) -> list[Event | None]:
    return [one.event for one in judged if one.event is not None]


def test_a_stop_is_told_once() -> None:
    judged = steps([view(), view(), *[view(STOPPED)] * 50])
    assert events(judged) == [Event.STOPPED]
    assert (judged[-1].state, judged[-1].since, judged[-1].stops) == (STOPPED, 10.0, 1)


def test_not_to_see_a_stop_any_more_does_not_end_it() -> None:
    judged = steps([view(), view(STOPPED), *[view(UNKNOWN, spoke=())] * 40])
    assert judged[-1].state is STOPPED
    assert events(judged) == [Event.STOPPED]


def test_one_look_that_shows_work_does_not_end_a_stop_and_two_do() -> None:
    judged = steps([view(), view(STOPPED), view(), view(STOPPED), view(), view()])
    assert [one.state for one in judged[1:]] == [STOPPED, STOPPED, STOPPED, STOPPED, ADVANCING]
    assert events(judged) == [Event.STOPPED, Event.RESUMED]


def test_a_stop_right_after_a_stop_calls_nobody_and_a_later_one_does() -> None:
    soon = [view(), view(STOPPED), view(), view(), view(STOPPED)]
    assert steps(soon)[-1].stops == 1
    later = [view(), view(STOPPED), *[view()] * 15, view(STOPPED)]
    judged = steps(later)
    assert judged[-1].stops == 2
    assert events(judged) == [Event.STOPPED, Event.RESUMED, Event.STOPPED]


def test_another_incarnation_has_its_own_stop() -> None:
    judged = steps([view(), view(STOPPED), view(incarnation=2), view(STOPPED, incarnation=2)])
    assert events(judged) == [Event.STOPPED, Event.RESTARTED, Event.STOPPED]
    assert judged[-1].incarnation == 2


def test_a_start_in_which_ranks_wait_is_no_stop_until_its_time_is_over() -> None:
    count = int(DEFAULTS.start_seconds / 5)
    waiting = view(STOPPED, loaded=None, worked=False, started_at=0.0, spoke=(Plane.HARDWARE,))
    judged = steps([waiting] * (count + 3))
    assert {one.state for one in judged[:count]} == {Progress.STARTING}
    assert events(judged) == [Event.STOPPED]


GIVEN = replace(DEFAULTS, start_seconds=60.0, start_ends=True)
SILENT = view(UNKNOWN, loaded=None, worked=False, started_at=0.0, spoke=())


def test_a_start_that_is_silent_is_no_stop_where_nobody_said_how_long_it_may_take() -> None:
    judged = steps([SILENT] * int(DEFAULTS.start_seconds / 5 + 10))
    assert Event.STOPPED not in events(judged)
    assert judged[-1].state is UNKNOWN


def test_a_start_has_stopped_when_the_time_that_it_was_given_is_over() -> None:
    judged = steps([SILENT] * 20, ProgressModel(GIVEN))
    assert [one.state for one in judged] == [Progress.STARTING] * 12 + [STOPPED] * 8
    assert events(judged) == [Event.STOPPED]
    assert judged[12].reason == "started 60 s ago, and it does not serve; it was given 60 s"


def test_a_start_that_comes_up_in_time_or_late_is_seen_to_work() -> None:
    assert events(steps([SILENT] * 11 + [view()] * 20, ProgressModel(GIVEN))) == []
    late = steps([SILENT] * 15 + [view()] * 3, ProgressModel(GIVEN))
    assert events(late) == [Event.STOPPED, Event.RESUMED]


def test_a_watch_that_came_after_the_start_was_to_be_over_says_nothing_of_it() -> None:
    """An instance that has served for days, whose page this watch may not read."""
    judged = steps([SILENT] * 40, ProgressModel(GIVEN), start=3600.0)
    assert events(judged) == []


def test_a_page_that_nobody_expects_cannot_be_missed() -> None:
    judged = steps([replace(SILENT, engine_expected=False)] * 40, ProgressModel(GIVEN))
    assert Event.STOPPED not in events(judged)


def test_each_incarnation_has_its_own_time_to_start() -> None:
    again = replace(SILENT, incarnation=2, started_at=100.0)
    judged = steps([*[SILENT] * 20, *[again] * 20], ProgressModel(GIVEN))
    assert events(judged) == [Event.STOPPED, Event.RESTARTED, Event.STOPPED]


def test_the_first_request_may_be_compiled_for() -> None:
    judged = steps([view(STOPPED, worked=False)] * int(DEFAULTS.first_step_seconds / 5 + 2))
    assert judged[10].state is Progress.STARTING
    assert events(judged) == [Event.STOPPED]


def test_without_an_answer_the_state_stands_for_a_while() -> None:
    judged = steps([view(), *[view(UNKNOWN, spoke=())] * 5, view()])
    assert [one.state for one in judged] == [ADVANCING] * 3 + [UNKNOWN] * 3 + [ADVANCING]
    assert events(judged) == [Event.LOST_SIGHT]


def test_a_front_end_that_begins_anew_while_all_ranks_are_gone_does_not_end_them_twice() -> None:
    gone = view(STOPPED, gone=True)
    anew = replace(gone, intervals=(replace(gone.intervals[0], at=10.0, fell=True, advanced=False),))
    judged = steps([view(), gone, anew, gone, view(incarnation=2)])
    events = [one.event for one in judged]
    assert events.count(Event.GONE) == 1
    assert events[-1] is Event.RESTARTED


def test_when_all_processes_have_ended_that_is_told_once_and_is_no_stop() -> None:
    judged = steps([view(), *[view(STOPPED, gone=True)] * 5])
    assert judged[-1].state is UNKNOWN
    assert events(judged) == [Event.GONE]


def test_idle_and_advancing_follow_each_other_without_delay() -> None:
    judged = steps([view(), view(IDLE, loaded=False), view()])
    assert [one.state for one in judged] == [ADVANCING, IDLE, ADVANCING]
    assert events(judged) == []


def test_counters_that_fall_again_and_again_are_several_servers_and_end_no_stop() -> None:
    def falling(at: float) -> LookResult:
        one = view(STOPPED)
        (interval,) = one.intervals
        return replace(one, intervals=(replace(interval, at=at, fell=True),))

    judged = steps([view(), *[falling(5.0 * number) for number in range(1, 40)]])
    assert len([event for event in events(judged) if event is Event.STOPPED]) <= 3


def test_waiting_alone_must_be_seen_twice() -> None:
    waiting = replace(view(STOPPED), decisive=False)
    assert events(steps([view(), waiting, view(), waiting, view()])) == []
    assert events(steps([view(), waiting, waiting])) == [Event.STOPPED]
