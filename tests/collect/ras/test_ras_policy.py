"""When RAS may be asked: every release of interest, every wish, every state of the instance, dumps or none."""

from __future__ import annotations

import itertools

import pytest
from ras_scene import MOVING, STARTING, STOPPED, STUCK_IN_INIT, UNSEEN

from rankmuster.collect.ras.hazards import HAZARDS, Harm
from rankmuster.collect.ras.policy import Action, Form, decide
from rankmuster.collect.ras.release import RAS_SINCE, Release, Span, release_in
from rankmuster.collect.wishes import RasRisk

WITHOUT_RAS = ("2.18.3", "2.21.5", "2.23.4")
SAFE = ("2.24.3", "2.25.1", "2.29.2", "2.29.3", "2.29.6")
RISKY = ("2.26.2", "2.26.6", "2.27.3", "2.27.5", "2.27.7", "2.28.3", "2.28.7", "2.28.9", "2.29.1")
NOT_IN_INIT = ("2.29.7", "2.30.3", "2.30.7", "2.31.2", "2.32.3", "2.32.6", "2.40.1", "3.0.0")
ASSESSMENTS = {
    "none": None,
    "stopped": STOPPED,
    "moving": MOVING,
    "unseen": UNSEEN,
    "starting": STARTING,
    "stuck in init": STUCK_IN_INIT,
}
INIT = ("starting", "stuck in init")


def _exactly(release: str) -> tuple[Span, ...]:
    found = release_in(release)
    assert found is not None
    return (Span.exactly(found),)


def _expected(release: str | None, risk: RasRisk, state: str, *, dumped: bool, final: bool) -> Action:
    """The rules, said once more and otherwise: as a table of conditions rather than in order."""
    if release in WITHOUT_RAS:
        return Action.NO_RAS
    if release in SAFE:
        return Action.ASK
    if release in NOT_IN_INIT:
        return Action.DECLINE if state in INIT else Action.ASK
    known = state != "none"
    stop_enough = risk is RasRisk.ALWAYS or state == "stopped"
    if risk is RasRisk.NEVER or state in INIT or (known and not stop_enough):
        return Action.DECLINE
    if known and dumped:
        return Action.ASK
    if final:
        return Action.DECLINE
    return Action.WAIT_FOR_DUMPS if known else Action.WAIT_FOR_STOP


@pytest.mark.parametrize("release", [*WITHOUT_RAS, *SAFE, *RISKY, *NOT_IN_INIT, None])
def test_every_release_under_every_wish_in_every_state(release):
    candidates = _exactly(release) if release is not None else ()
    for risk, state, dumped, final in itertools.product(RasRisk, ASSESSMENTS, (False, True), (False, True)):
        decision = decide(candidates, risk, ASSESSMENTS[state], dumped=dumped, final=final)
        wanted = _expected(release, risk, state, dumped=dumped, final=final)
        assert decision.action is wanted, (release, risk, state, dumped, final, decision)
        assert decision.reason
        assert "\n" not in decision.reason
        if decision.action in (Action.DECLINE, Action.NO_RAS):
            assert decision.action is Action.NO_RAS or decision.reason.startswith("not asked")
        if final:
            assert not decision.waits


@pytest.mark.parametrize("risk", RasRisk)
@pytest.mark.parametrize("release", RISKY)
def test_a_risky_release_is_never_asked_before_the_dumps_or_during_init(release, risk):
    for state, final in itertools.product(ASSESSMENTS.values(), (False, True)):
        assert decide(_exactly(release), risk, state, dumped=False, final=final).action is not Action.ASK
    for state in (STARTING, STUCK_IN_INIT):
        assert decide(_exactly(release), risk, state, dumped=True).action is Action.DECLINE


@pytest.mark.parametrize("release", [*SAFE, *RISKY, *NOT_IN_INIT])
def test_json_is_asked_for_where_the_release_has_it(release):
    found = release_in(release)
    form = decide(_exactly(release), RasRisk.ALWAYS, STOPPED, dumped=True).form
    assert form is (Form.JSON if found >= Release(2, 28, 7) else Form.TEXT)


def test_contradicting_sources_count_as_the_worse():
    for good, bad in itertools.product((*SAFE, *NOT_IN_INIT, *WITHOUT_RAS), RISKY):
        both = decide((*_exactly(good), *_exactly(bad)), RasRisk.NEVER, STOPPED, dumped=True)
        assert both.action is Action.DECLINE
    late_and_text = (*_exactly("2.30.7"), *_exactly("2.25.1"))  # the form cannot be told: text would crash one of them
    assert decide(late_and_text, RasRisk.NEVER, STOPPED, dumped=True).action is Action.DECLINE


@pytest.mark.parametrize(
    ("span", "risky"),
    [
        (Span(Release(2, 24, 3), Release(2, 28, 7)), True),
        (Span(Release(2, 28, 7), Release(2, 29, 2)), True),
        (Span(Release(2, 29, 2), Release(2, 31, 2)), False),
        (Span(Release(2, 31, 2), Release(2, 32, 3)), False),
        (Span(Release(2, 32, 3), None), False),
        (Span(RAS_SINCE, None), True),
        (Span(), True),
    ],
)
def test_a_range_is_as_risky_as_its_worst_release(span, risky):
    decision = decide((span,), RasRisk.NEVER, MOVING, dumped=True)
    assert decision.action is (Action.DECLINE if risky else Action.ASK)
    assert decision.risky is risky


def test_a_thread_that_crashes_by_itself_is_warned_of():
    for release in ("2.27.7", "2.28.9", "2.30.7", "2.32.6"):
        (warning,) = decide(_exactly(release), RasRisk.ALWAYS, STOPPED, dumped=True).warnings
        assert "NCCL_RAS_ENABLE=0" in warning
    for release in ("2.24.3", "2.26.2", "2.27.5"):
        assert decide(_exactly(release), RasRisk.ALWAYS, STOPPED, dumped=True).warnings == ()


def test_the_reason_names_the_defect_and_where_it_is_known_from():
    during_init = decide(_exactly("2.26.5"), RasRisk.ALWAYS, STARTING, dumped=True)
    assert "#1669" in during_init.reason
    moving = decide(_exactly("2.28.9"), RasRisk.AFTER_STOP_CONFIRMED, MOVING, dumped=True)
    assert "#1762" in moving.reason
    assert "iterations advance" in moving.reason
    assert "ras_risk=always" in moving.reason


def test_every_kind_of_harm_has_its_releases_and_a_source():
    assert {hazard.harm for hazard in HAZARDS} == set(Harm)
    assert all("NVIDIA/nccl#" in hazard.source and hazard.releases.lowest is not None for hazard in HAZARDS)


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("2.28.9", (2, 28, 9)),
        ("2.28.9+cuda12.9", (2, 28, 9)),
        ("2.26.2.post1", (2, 26, 2)),
        ("v2.18.3-1", (2, 18, 3)),
        ("2.28", None),
        ("", None),
        ("2.28.99999", None),
    ],
)
def test_releases_are_read_from_what_people_write(text, release):
    assert release_in(text) == release


def test_spans_say_what_they_hold():
    exact = Span.exactly(Release(2, 28, 9))
    assert exact.exact == Release(2, 28, 9)
    assert str(exact) == "2.28.9"
    assert exact.within(Span(Release(2, 28, 7), Release(2, 29, 2)))
    assert not Span(Release(2, 28, 7), None).within(Span(None, Release(2, 29, 2)))
    assert not exact.overlaps(Span(Release(2, 28, 10), None))
    assert Span().overlaps(exact)
    assert str(Span(None, RAS_SINCE)) == "older than 2.24.3"
