"""A release's first minutes: kept, rolled back, or not decided; against what the approved one did under like load."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rankmuster.gate.canary import BLOCK, LEAST_LOOKS, TOLERANCE, Gathered, judge
from rankmuster.gate.canary_document import NotACanary, read, render
from rankmuster.model.canary import Advice, Serving
from rankmuster.model.fault import Progress
from rankmuster.watch.snapshot import InstanceView

LOOK = 5.0


def view(
    speed: float | None = 100.0, running: float = 8.0, state: Progress = Progress.ADVANCING, **more
) -> InstanceView:
    made = InstanceView("llm-0", state, 0.0, "why", incarnation="1", running=running)
    return replace(made, tokens_per_s=None if speed is None else speed * running, **more)


def gathered(*views: InstanceView | None, start: float = 1_796_000_000.0) -> Serving:
    found = Gathered("llm-0", None)
    for number, one in enumerate(views):
        found.add(start + LOOK * number, one)
    return found.serving


def speeds(mean: float, looks: int, seed: int, spread: float = 0.05) -> list[InstanceView]:
    """Looks whose speeds hang together over half a minute, as those of batches do."""
    random = np.random.default_rng(seed)
    slow = np.repeat(random.normal(0, spread, -(-looks // BLOCK)), BLOCK)[:looks]
    return [view(mean * (1 + one + random.normal(0, spread / 2))) for one in slow]


def test_a_release_as_fast_as_the_approved_one_is_kept():
    judged = judge(gathered(*speeds(100, 120, 1)), gathered(*speeds(100, 120, 2)))
    assert judged.advice is Advice.KEEP
    assert judged.compared[0].low > 1 - TOLERANCE


def test_one_that_is_a_third_slower_is_rolled_back():
    judged = judge(gathered(*speeds(67, 120, 1)), gathered(*speeds(100, 120, 2)))
    assert judged.advice is Advice.ROLL_BACK
    assert "of its speed" in judged.reasons[0]


def test_errors_of_both_kinds_are_rare():
    """Of a hundred pairs of equal releases none is rolled back; of those a quarter slower none is kept."""
    equal = [judge(gathered(*speeds(100, 120, n)), gathered(*speeds(100, 120, 1000 + n))) for n in range(100)]
    slower = [judge(gathered(*speeds(75, 120, n)), gathered(*speeds(100, 120, 1000 + n))) for n in range(100)]
    assert not [one for one in equal if one.advice is Advice.ROLL_BACK]
    assert sum(one.advice is Advice.KEEP for one in equal) >= 95
    assert not [one for one in slower if one.advice is Advice.KEEP]
    assert sum(one.advice is Advice.ROLL_BACK for one in slower) >= 95


def test_the_same_samples_give_the_same_answer():
    ours, theirs = gathered(*speeds(92, 60, 1)), gathered(*speeds(100, 60, 2))
    assert judge(ours, theirs) == judge(ours, theirs)


@pytest.mark.parametrize(
    ("odd", "word"),
    [
        (view(state=Progress.STOPPED, stops=1), "stopped"),
        (view(state=Progress.SLOW), "slow"),
        (view(stops=1), "between two looks"),
        (view(event="gone"), "have ended"),
        (view(event="restarted"), "started anew"),
        (view(incarnation="2"), "started anew"),
        (None, "does not see it"),
    ],
)
def test_what_a_release_must_not_do_rolls_it_back_at_once(odd, word):
    serving = gathered(view(), view(), odd, view())
    assert any(word in one.what for one in serving.troubles)
    judged = judge(serving, gathered(*speeds(100, 120, 2)))
    assert judged.advice is Advice.ROLL_BACK


def test_a_trouble_that_lasts_is_told_once_and_one_that_comes_again_twice():
    bad = view(state=Progress.STOPPED, stops=1)
    assert len(gathered(view(), bad, bad, bad).troubles) == 1
    assert len(gathered(view(), bad, replace(view(), stops=1), replace(bad, stops=2)).troubles) == 2


def test_a_start_is_no_trouble_and_no_speed():
    starting = view(None, 0.0, Progress.STARTING)
    serving = gathered(starting, starting, view())
    assert not serving.troubles
    assert serving.busy == 1


@pytest.mark.parametrize(
    ("ours", "theirs", "word"),
    [
        ([view(None, 0.0, Progress.IDLE)] * 50, [view()] * 50, "give it traffic"),
        ([view()] * 50, None, "nothing to hold it against"),
        ([view()] * (LEAST_LOOKS - 1), [view()] * 50, "watch it for longer"),
        ([view(running=2.0)] * 50, [view(running=64.0)] * 50, "under the same load"),
    ],
)
def test_too_little_decides_nothing(ours, theirs, word):
    judged = judge(gathered(*ours), gathered(*theirs) if theirs is not None else None)
    assert judged.advice is Advice.UNDECIDED
    assert word in judged.reasons[0]


def test_like_load_is_compared_with_like():
    """A fuller batch gives each request less: that is no slowness."""
    ours = gathered(*([view(50.0, 64.0)] * 60), *([view(100.0, 8.0)] * 30))
    theirs = gathered(*([view(100.0, 8.0)] * 60), *([view(50.0, 64.0)] * 30))
    assert judge(ours, theirs).advice is Advice.KEEP


def test_a_document_is_read_back_as_it_was():
    serving = gathered(*speeds(100, 40, 1), view(state=Progress.STOPPED))
    assert read(render(serving, judge(serving, None))) == serving


@pytest.mark.parametrize("data", [b"", b"{}", b"[]", b'{"schema": "rankmuster.canary/2"}', b"\xff", b'{"schema": 1}'])
def test_what_is_no_canary_is_refused(data):
    with pytest.raises(NotACanary):
        read(data)


def test_speeds_that_are_not_by_load_are_refused():
    serving = replace(gathered(view()), speeds={"many": (1.0,)})
    with pytest.raises(NotACanary, match="not by load"):
        read(render(serving, judge(serving, None)))


def test_stalls_that_leave_the_median_alone_are_seen():
    ours = [view(1.0) if number % 5 == 0 else view(100.0) for number in range(120)]
    judged = judge(gathered(*ours), gathered(*speeds(100, 120, 2)))
    assert judged.advice is Advice.ROLL_BACK
    assert any("stalls" in one for one in judged.reasons)


@pytest.mark.parametrize(
    "later",
    [view(None, 8.0), view(None, 0.0, Progress.STARTING), view(None, 8.0, Progress.UNKNOWN)],
)
def test_looks_that_say_nothing_are_no_good_ones(later):
    judged = judge(gathered(*speeds(100, 30, 1), *([later] * 90)), gathered(*speeds(100, 120, 2)))
    assert judged.advice is Advice.UNDECIDED
    assert "could say nothing" in judged.reasons[0]


def test_a_load_of_which_there_is_too_little_is_not_passed_over():
    ours = [*speeds(100, 60, 1), *([view(3.0, 64.0)] * 23)]
    judged = judge(gathered(*ours), gathered(*speeds(100, 120, 2), *([view(100.0, 64.0)] * 60)))
    assert judged.advice is Advice.UNDECIDED


def test_a_baseline_that_was_itself_in_trouble_or_stood_still_is_none():
    ours = gathered(*speeds(100, 60, 1))
    slow = gathered(view(state=Progress.SLOW), *speeds(100, 60, 2))
    assert "itself in trouble" in judge(ours, slow).reasons[0]
    still = gathered(*([view(0.0)] * 60))
    assert judge(ours, still).advice is Advice.UNDECIDED
    assert judge(still, still).advice is Advice.UNDECIDED


def test_a_speed_below_nothing_is_refused():
    serving = replace(gathered(view()), speeds={"8": (-1.0,)})
    with pytest.raises(NotACanary, match="below nothing"):
        read(render(serving, judge(serving, None)))
