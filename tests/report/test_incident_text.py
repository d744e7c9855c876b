"""An incident on a terminal: the first lines say what is the state now and what is to do, the rest how it came."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import replace

import pytest
from rich.console import Console

from incident_story import (
    DECISION,
    ID,
    OPENING,
    RUNNER,
    STORIES,
    T0,
    VERDICT,
    Story,
    crashed,
    gave_up,
    observed,
    rebuilt,
    recovered,
    until_decided,
    waiting,
)
from rankmuster.incident.machine.fold import fold
from rankmuster.model.fault import Boundary, Confidence, FaultClass
from rankmuster.model.incident import (
    Breaker,
    Course,
    Ending,
    EventKind,
    IncidentHead,
    OpenedBy,
    Outcome,
    RetestEnding,
    Step,
)
from rankmuster.model.verdict import Window
from rankmuster.report import incident_html, incident_markdown, incident_text
from rankmuster.report.incident_account import account
from rankmuster.report.incident_event_text import event_text
from rankmuster.report.incident_impact import impact
from rankmuster.report.incident_list_text import breaker_text, list_text
from rankmuster.report.incident_nodes import NodeState, node_accounts
from rankmuster.report.incident_standing import TrafficNow, standing, traffic_now
from rankmuster.report.incident_words import ENDINGS, MEANINGS, OUTCOMES, RETESTS, STEPS


def shown(story: Story, *, width: int = 120, lease: str | None = "", after: float = 5.0) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None, highlight=False, emoji=False)
    incident_text.render(account(ID, story.events), console, now=story.at + after, lease=lease)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert isinstance(text, str)
    return text


def todo(story: Story, lease: str | None = "") -> str:
    return "\n".join(standing(account(ID, story.events), story.at, lease).todo)


@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_the_stories_are_legal_for_the_state_machine(story: Callable[[], Story]) -> None:
    fold(ID, tuple(story().events))


def test_every_word_of_the_model_has_a_look() -> None:
    assert set(ENDINGS) == {*Ending, None}
    assert set(OUTCOMES) == {*Outcome, None}
    assert set(MEANINGS) == set(Outcome)
    assert set(STEPS) == set(Step)
    assert set(RETESTS) == set(RetestEnding)


@pytest.mark.parametrize("width", [40, 60, 80, 200])
@pytest.mark.parametrize("story", STORIES.values(), ids=STORIES)
def test_it_fits_and_every_step_and_action_is_there(story: Callable[[], Story], width: int) -> None:
    made = story()
    text = shown(made, width=width)
    found = account(ID, made.events)
    assert [line for line in text.splitlines()[1:] if len(line) > max(width, 60)] == []
    for stage, did in found.acted:
        assert stage.step.value in text
        assert did.name in "".join(text.split()) or did.name in text


def test_who_is_woken_reads_first_that_it_serves_and_that_a_node_is_theirs_to_repair() -> None:
    lines = shown(recovered()).splitlines()
    assert lines[0] == "RECOVERED: llm-0 is served again, 1 min 6 s after the fault; its process group was rebuilt"
    assert lines[1].startswith(" 1. node h-2 is quarantined, its re-test failed: repair it")


def test_one_that_waits_says_how_long_and_what_to_type() -> None:
    text = shown(waiting(), lease=RUNNER)
    assert text.startswith("WAITING FOR YOU, for 14 min 55 s more: nothing is done for llm-0")
    assert "the verdict is only possible" in text
    assert f"rankmuster incident approve {ID} --boundary node" in todo(waiting(), RUNNER)
    held = until_decided(Story(), replace(DECISION, course=Course.HOLD, boundary=Boundary.CLUSTER, held="many"))
    assert "--boundary process_group" in todo(held.begin(Step.APPROVE), RUNNER)


def test_limits_say_why_they_wait() -> None:
    story = until_decided(Story())
    story.put(EventKind.PLANNED, note="held by limits: 4 instances are rebuilt now", data={"steps": []})
    story.plan(Step.APPROVE).events[-1] = replace(story.events[-1], note="held by limits: 4 instances are rebuilt now")
    text = shown(story.begin(Step.APPROVE), lease=RUNNER)
    assert "4 instances are rebuilt now" in text.splitlines()[0]


def test_an_open_one_without_a_runner_says_so_first() -> None:
    text = shown(until_decided(Story()).begin(Step.TERMINATE), lease=None)
    assert text.startswith("OPEN, and nobody works on it")
    assert f"rankmuster incident resume {ID}" in text


def test_one_that_works_says_at_what_and_for_how_long() -> None:
    story = until_decided(Story()).begin(Step.TERMINATE)
    assert shown(story, lease=RUNNER).startswith("WORKING on llm-0: end the whole process group (5.0 s of 30.0 s)")


def test_given_up_says_that_the_gpus_came_first_and_what_was_skipped() -> None:
    text = shown(gave_up())
    assert text.startswith("GAVE UP at the total deadline: llm-0 does not serve; the GPUs were freed first")
    assert "the gateway sends llm-0 nothing" in text
    assert "retest: the total deadline has passed" in text.split("SKIPPED")[1]


def test_given_up_without_freeing_says_where_to_look() -> None:
    story = until_decided(Story()).begin(Step.TERMINATE)
    story.put(EventKind.DEADLINE, after=700.0).end(Step.TERMINATE, Ending.TIMED_OUT).close(Outcome.GAVE_UP)
    assert "the GPUs may still be held" in shown(story)
    assert "see what still runs of llm-0" in todo(story)


@pytest.mark.parametrize("ending", [Ending.FAILED, Ending.TIMED_OUT, Ending.NODE, Ending.UNKNOWN])
def test_a_needed_step_that_failed_is_told_with_its_reason(ending: Ending) -> None:
    story = until_decided(Story())
    story.act(Step.TERMINATE, "supervisor:terminate", ending, "pid 4711 sleeps in the driver (D)")
    text = shown(story.close(Outcome.FAILED))
    assert text.startswith("FAILED: llm-0 does not serve")
    assert "pid 4711 sleeps in the driver (D)" in todo(story)


def test_a_crash_is_shown_with_who_went_on_and_what_a_look_found() -> None:
    text = shown(crashed())
    assert "h-3, pid 77 goes on with it, 16.0 s after the last sign of the one before" in " ".join(text.split())
    assert "found done after a crash: nothing of it runs" in " ".join(text.split())


def test_an_action_that_was_begun_again_by_another_runner_says_so() -> None:
    story = until_decided(Story()).begin(Step.CUT).intend(Step.CUT, "haproxy-0:cut")
    story.runner("h-3:77", resumed=True, after=9.0).intend(Step.CUT, "haproxy-0:cut")
    story.result(Step.CUT, "haproxy-0:cut", note="4 shut").end(Step.CUT)
    assert "4 shut; begun again after a crash" in " ".join(shown(story).split())
    assert len([did for _, did in account(ID, story.events).acted if did.name == "haproxy-0:cut"]) == 1


def test_what_is_only_observed_is_said_line_by_line() -> None:
    lines = shown(observed()).splitlines()
    would = [line.strip() for line in lines if line.strip().startswith("would:")]
    assert would == [
        "would: echo 'set server llm/a state drain' | /run/haproxy.sock",
        "would: SIGTERM to 100, 101, 102, 103",
        "would: then SIGKILL",
    ]
    assert lines[0].startswith("OBSERVED: nothing was done for llm-0, which is as it was found (stopped)")


def test_observed_in_part_says_that_traffic_is_stopped() -> None:
    story = Story().runner().plan().act(Step.STOP_TRAFFIC, "haproxy-0:stop_new")
    story.act(Step.TERMINATE, "supervisor:terminate", Ending.OBSERVED)
    story.close(Outcome.OBSERVED, "the group was not rebuilt, since that is not enabled")
    assert shown(story).startswith("OBSERVED in part: llm-0 was not rebuilt")
    assert "the gateway sends llm-0 nothing" in todo(story)


def test_operators_stand_in_the_timeline_with_their_words() -> None:
    story = waiting()
    story.put(EventKind.APPROVED, after=60.0, by="mia@desk", note="seen before", data={"boundary": "process_group"})
    text = " ".join(shown(story).split())
    assert "approved by mia@desk boundary process_group: seen before" in text


@pytest.mark.parametrize(
    ("retest", "state", "said"),
    [
        (RetestEnding.FAIL, NodeState.QUARANTINED, "is quarantined"),
        (RetestEnding.PASS, NodeState.LET_IN, ""),
        (RetestEnding.PROVISIONAL, NodeState.FENCED, "stays fenced, its re-test gave no answer (provisional)"),
        (RetestEnding.ERROR, NodeState.FENCED, "gave no answer (error)"),
    ],
)
def test_what_became_of_a_node(retest: RetestEnding, state: NodeState, said: str) -> None:
    story = recovered(retest)
    (node,) = node_accounts(account(ID, story.events))
    assert (node.node, node.state, node.retest) == ("h-2", state, retest)
    assert said in todo(story)
    if not said:
        assert todo(story) == ""


def test_a_node_that_others_fenced_or_nobody_knows_of() -> None:
    story = until_decided(Story()).begin(Step.FENCE)
    for node, ending, data in (
        ("h-2", Ending.DONE, {"others": True}),
        ("h-5", Ending.TIMED_OUT, {}),
        ("h-6", Ending.REFUSED, {}),
    ):
        story.intend(Step.FENCE, f"slurm_drain-0:fence:{node}")
        story.result(Step.FENCE, f"slurm_drain-0:fence:{node}", ending, **data)
    states = {one.node: one.state for one in node_accounts(account(ID, story.events))}
    assert states == {"h-2": NodeState.OTHERS, "h-5": NodeState.OPEN, "h-6": NodeState.NOT_FENCED}
    assert "nobody knows whether node h-5 is fenced" in todo(story)


def test_traffic_is_told_by_the_last_thing_that_was_done() -> None:
    story = Story().runner().plan()
    assert traffic_now(account(ID, story.events)) is TrafficNow.UNTOUCHED
    story.act(Step.SHED, "haproxy-0:set_weight")
    assert traffic_now(account(ID, story.events)) is TrafficNow.LOWERED
    story.begin(Step.STOP_TRAFFIC).intend(Step.STOP_TRAFFIC, "haproxy-0:stop_new")
    assert traffic_now(account(ID, story.events)) is TrafficNow.UNCLEAR
    story.result(Step.STOP_TRAFFIC, "haproxy-0:stop_new").end(Step.STOP_TRAFFIC)
    assert traffic_now(account(ID, story.events)) is TrafficNow.STOPPED
    story.begin(Step.RESTORE).intend(Step.RESTORE, "haproxy-0:restore").intend(Step.RESTORE, "haproxy-1:restore")
    story.result(Step.RESTORE, "haproxy-0:restore").result(Step.RESTORE, "haproxy-1:restore", Ending.FAILED)
    assert traffic_now(account(ID, story.events)) is TrafficNow.UNCLEAR


def test_the_impact_is_counted_from_the_fault() -> None:
    told = impact(account(ID, recovered().events))
    assert told.fault_at == T0 - 12.0
    assert told.down_seconds == pytest.approx(66.7, abs=0.2)
    assert told.requests == 4
    assert told.drain_seconds == pytest.approx(0.02)
    without = impact(account(ID, observed().events))
    assert (without.served_at, without.terminated_at, without.requests) == (None, None, None)
    later = replace(OPENING, since=T0 + 50.0)  # a watch's clock that is ahead
    assert impact(account(ID, Story(later).events)).fault_at is None


def test_a_fault_that_nobody_saw_is_not_dated_by_its_detection() -> None:
    """The watch's `since` is when its state changed; the instance stood still before that."""
    unseen = replace(OPENING, since=T0)
    story = rebuilt(until_decided(Story(unseen))).close(Outcome.RECOVERED)
    told = impact(account(ID, story.events))
    assert (told.fault_at, told.counted_from) == (None, T0)
    assert shown(story).startswith("RECOVERED: llm-0 is served again, 54.7 s after it was detected")
    assert "detected at 2026-11-29 21:08:20" in shown(story)
    for form in (incident_markdown, incident_html):
        page = form.render(account(ID, story.events), now=story.at)
        assert "after the fault" not in page
        assert "nobody saw when" in page
    ended = replace(OPENING, since=T0, by=OpenedBy.ENDED)  # its supervisor saw it end
    assert impact(account(ID, Story(ended).events)).fault_at == T0


def test_a_verdict_that_is_not_only_possible_dates_the_fault() -> None:
    unseen, dated = replace(OPENING, since=None), replace(VERDICT, window=Window(fault_at=T0 - 20.0))
    events = Story(unseen).events
    assert impact(account(ID, events, dated)).fault_at == T0 - 20.0
    assert impact(account(ID, events, replace(dated, confidence=Confidence.POSSIBLE))).fault_at is None
    assert impact(account(ID, events, replace(VERDICT, window=Window(fault_at=T0 + 20.0)))).fault_at is None


def test_one_that_was_resumed_tells_both_rounds() -> None:
    story = gave_up().put(EventKind.REOPENED, after=600.0, by="mia").runner(after=1.0)
    story.plan(Step.TERMINATE, Step.START, Step.VERIFY, Step.RESTORE)
    again = account(ID, story.events)
    assert again.closed is None
    assert [stage.step for stage in again.stages if stage.begun_at is None and stage.ending is None] == [
        Step.TERMINATE,
        Step.START,
        Step.VERIFY,
        Step.RESTORE,
    ]
    done = account(ID, rebuilt(story).close(Outcome.RECOVERED).events)
    assert done.outcome is Outcome.RECOVERED
    assert len([stage for stage in done.stages if stage.step is Step.START]) == 2


HOSTILE = "\x1b[31mred\x1b[0m \x07 </td><script>alert(1)</script> [bold]x[/] | a | b \u202e `rm` \n# head " + "A" * 5000


def hostile_story() -> Story:
    """All that a failing machine or a later version could have written, in every place."""
    opening = replace(OPENING, instance=HOSTILE[:200], incarnation=HOSTILE[:200], reason=HOSTILE, host=HOSTILE[:100])
    story = Story(opening).runner().plan()
    story.put(EventKind.PLANNED, data={"steps": "all", "total_seconds": "long"})
    story.put(EventKind.PLANNED, data={"steps": [{"step": "dance"}, 7, {"step": "cut", "seconds": 1e400}]})
    story.put(EventKind.SEEN, data={"progress": {"a": HOSTILE}}, note=HOSTILE)
    story.put(EventKind.NOTED, note=HOSTILE, by=HOSTILE)
    story.put(EventKind.STEP_BEGUN, step=Step.CUT, data={"deadline_at": "soon"})
    story.result(Step.CUT, HOSTILE[:300], Ending.OBSERVED, HOSTILE, would=[HOSTILE, 3], requests=float("nan"))
    story.end(Step.CUT, note=HOSTILE, bundle=HOSTILE, verdict={"schema": "rankmuster.verdict/1", "class": "dance"})
    story.put(EventKind.DECIDED, data={"course": "dance"})
    story.put(EventKind.RUNNER, data={"host": HOSTILE, "pid": 1e300, "resumed": True}, by=HOSTILE)
    story.put(EventKind.RESULT, step=Step.RETEST, action="a:fence:b", data={"results": [{"node": HOSTILE}, None]})
    story.put(EventKind.STEP_ENDED, step=Step.DRAIN, ending=Ending.DONE, after=-500.0)
    story.put(EventKind.RUNNER, data={"pid": float("inf"), "resumed": "yes"})
    return story.put(EventKind.CLOSED, data={"outcome": "dance"}, note=HOSTILE)


def test_hostile_text_is_inert_bounded_and_raises_nothing() -> None:
    story = hostile_story()
    text = shown(story)
    assert not set(text) & {chr(code) for code in (0x1B, 7, 0x202E)}
    assert len(text) < 60_000
    lines = [event_text(event) for event in story.events]
    assert all(line.count("\n") == 1 and "\x1b" not in line and len(line) < 1500 for line in lines)


def test_an_empty_journal_row_is_no_error() -> None:
    assert "OPEN" in shown_of(())


def shown_of(events: tuple[()]) -> str:
    console = Console(file=io.StringIO(), width=100, color_system=None)
    incident_text.render(account(ID, events), console, now=T0)
    return str(console.file.getvalue())  # type: ignore[attr-defined]


def test_a_list_on_a_small_screen_folds_no_word_and_no_id() -> None:
    head = IncidentHead(
        id=ID,
        instance="llm-0",
        incarnation=None,
        opened_at=T0,
        by=OpenedBy.STOPPED,
        class_=FaultClass.PROCESS_OR_DEVICE_LOST,
        boundary=Boundary.PROCESS_GROUP,
        lease="h-1:serve:4242-a1b2",
    )
    text = list_text((head,), now=T0 + 60, width=80, place="/j.db", breaker=None)
    assert max(len(line) for line in text.splitlines()) <= 110
    for word in (ID, "process_or_device_lost", "boundary process_group", "h-1:serve:4242-a1b2", "> open: llm-0"):
        assert any(word in line for line in text.splitlines()), word
    wide = list_text((head,), now=T0 + 60, width=200, place="/j.db", breaker=None)
    assert wide.startswith("state")
    assert len(wide.splitlines()) == 3


def test_a_step_does_not_repeat_what_its_action_says() -> None:
    story = Story().runner().plan().act(Step.EVIDENCE, "collect:collect", note="saved in /b/bundle")
    assert shown(story).count("saved in /b/bundle") == 1
    assert "save evidence" in shown(story)
    first, second = (event for event in story.events if event.note == "saved in /b/bundle")
    assert "/b/bundle" in event_text(first)
    assert "/b/bundle" not in event_text(second, first.note)


def test_what_waits_without_a_runner_needs_both_and_its_evidence_is_named() -> None:
    story = waiting()
    lines = todo(story, None)
    assert "approve" in lines
    assert "resume" in lines
    assert "incident show" not in todo(story, RUNNER)  # it is what is being read
    assert "rankmuster diagnose /" in todo(story, RUNNER)


def test_what_was_aborted_is_the_operator_s_and_says_so() -> None:
    story = waiting().put(EventKind.ABORTED, by="mia", note="I am at it").close(Outcome.ABORTED, "aborted by mia")
    assert "llm-0 is yours: it was stopped when this began" in todo(story)
    assert "Nothing falls to an operator" not in incident_markdown.render(account(ID, story.events), now=story.at)


def test_the_list_and_the_breaker() -> None:
    head = IncidentHead(id=ID, instance=HOSTILE[:80], incarnation=None, opened_at=T0, by=OpenedBy.STOPPED)
    breaker = Breaker(opened_at=T0, why="5 instances within 300 s\x1b")
    text = list_text((head,), now=T0 + 60, width=160, place="/j.db", breaker=breaker)
    assert text.startswith("THE CIRCUIT BREAKER IS OPEN")
    assert "\x1b" not in text
    assert "1 min 0 s" in text
    assert "never open" in breaker_text(None, T0)
    assert "is closed" in breaker_text(replace(breaker, closed_at=T0 + 9, closed_by="mia"), T0 + 10)
