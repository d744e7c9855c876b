"""The instance's own habit of pausing: known after enough pauses, and forgotten when it has none any more."""

from __future__ import annotations

from rankmuster.watch.progress.loaded import Interval
from rankmuster.watch.progress.pauses import Pauses
from rankmuster.watch.progress.settings import DEFAULTS


class Fed:
    def __init__(self, engine: str = "vllm") -> None:
        self.pauses, self.now, self.engine = Pauses(DEFAULTS), 0.0, engine

    def __call__(self, looks: int, *, advanced: bool, loaded: bool = True) -> None:
        for _ in range(looks):
            self.now += 5.0
            name = ("s", self.engine, "0")
            self.pauses.add([Interval(name, self.now, 5.0, 1.0, 1.0, advanced, loaded, True, False)])


def paused(times: int, engine: str = "vllm", looks: int = 8) -> Fed:
    fed = Fed(engine)
    for _ in range(times):
        fed(3, advanced=True)
        fed(looks, advanced=False)
    fed(1, advanced=True)
    return fed


def test_a_few_long_pauses_are_no_habit_and_many_are() -> None:
    assert paused(DEFAULTS.habit_gaps - 1).pauses.habit == 0.0
    assert paused(DEFAULTS.habit_gaps + 1).pauses.habit == 45.0


def test_what_has_not_paused_for_hours_of_work_has_no_habit_of_it() -> None:
    fed = paused(40)
    fed(int(DEFAULTS.habit_seconds / 5), advanced=True)
    assert fed.pauses.habit == 0.0


def test_rest_is_no_time_in_which_a_habit_is_lost() -> None:
    fed = paused(40)
    fed(int(2 * DEFAULTS.habit_seconds / 5), advanced=False, loaded=False)
    fed(1, advanced=True)
    assert fed.pauses.habit == 45.0


def test_load_that_stays_on_the_page_after_the_last_request_is_no_pause() -> None:
    assert paused(40, "sglang", looks=5).pauses.habit == 0.0
    assert paused(40, "sglang", looks=12).pauses.habit == 65.0
