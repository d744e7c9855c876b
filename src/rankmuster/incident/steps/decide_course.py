"""DECIDE: what follows from the verdict, and the plan for it; both on disk before the step ends."""

from __future__ import annotations

from dataclasses import replace

from rankmuster.incident.decide import Facts, decide, settings_of
from rankmuster.incident.machine.plan import plan_after, planned_event
from rankmuster.incident.machine.state import Incident
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.given import NoVerdict, diagnosed, opened_with
from rankmuster.incident.steps.scene import Ended, Scene
from rankmuster.incident.tools import Tools
from rankmuster.model.incident import Decision, Ending, EventKind, GroupLook, GroupState, Step
from rankmuster.model.plain_json import Bounds, to_plain
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_brief import brief

LOOK_SECONDS = 1.0

BOUNDS = Bounds(text=4_000, members=10_000)


def run(scene: Scene) -> Ended:
    """Data: `course`, `boundary`."""
    before = scene.decision
    if before is not None and is_planned(scene):
        # an earlier runner wrote both and died before the step's end; what it planned may have begun
        return _ended(before)
    try:
        verdict = the_verdict(scene)
    except NoVerdict as error:
        scene.note(f"decided without a verdict: {error}")
        verdict = None
    if verdict is not None:
        # its file lies beside the evidence, and a post-mortem is read when that has long gone
        scene.note(verdict.summary, {"verdict": brief(verdict)})
    facts, notes = facts_now(scene, verdict)
    for note in notes:
        scene.note(note)
    decision = decide(verdict, scene.opening, facts, settings_of(scene.config))
    decision = scene.setting.permits.within(decision)
    scene.record.write(
        EventKind.DECIDED, step=scene.step, data=to_plain(decision, BOUNDS), within=scene.acting.number,
        note=decision.held or (decision.why[-1] if decision.why else ""),
    )  # fmt: skip
    elsewhere = can_elsewhere(scene.tools)
    plan = plan_after(
        decision, scene.record.incident, scene.setting.budget, scene.config.approve, can_elsewhere=elsewhere
    )
    event = planned_event(plan, at=0.0, by="", budget=scene.setting.budget, can_elsewhere=elsewhere)
    scene.record.write(EventKind.PLANNED, step=scene.step, note=event.note, data=event.data, within=scene.acting.number)
    return _ended(decision)


def _ended(decision: Decision) -> Ended:
    return Ended(Ending.DONE, words(decision), {"course": decision.course.value, "boundary": decision.boundary.value})


def is_planned(scene: Scene) -> bool:
    """Whether this very run of the step has its decision and the plan for it on disk."""
    since = [one.kind for one in scene.past.since_begun(Step.DECIDE)]
    return EventKind.DECIDED in since and EventKind.PLANNED in since[since.index(EventKind.DECIDED) :]


def words(decision: Decision) -> str:
    """The decision in a sentence."""
    why = decision.held or "; ".join(decision.why)
    return f"{decision.course.value} ({decision.boundary.value}): {why}"


def can_elsewhere(tools: Tools) -> bool:
    return tools.group is not None and tools.group.elsewhere


def the_verdict(scene: Scene) -> Verdict:
    """That of the opening where it can be about this stop, else that of the diagnosis. Raises NoVerdict."""
    try:
        given = opened_with(scene)
    except NoVerdict as error:
        scene.note(f"the verdict that the opening brought is not used: {error}")
        given = None
    return diagnosed(scene) if given is None else given


def facts_now(scene: Scene, verdict: Verdict | None) -> tuple[Facts, tuple[str, ...]]:
    """What does not change, with what is seen now."""
    incident = scene.record.incident
    known, notes = scene.setting.facts(incident.id, verdict)
    look = _look(scene)
    hosts = dict(known.rank_hosts)
    # of what runs now only where it is what the evidence is of: the same names may be on other nodes by now
    same = look is not None and look.incarnation == scene.past.bound
    nodes = {**(look.nodes if look is not None and same else {}), **scene.past.bound_nodes, **known.nodes}
    if look is not None and len(look.hosts) == 1 and verdict is not None:
        hosts = {**{one.rank: look.hosts[0] for one in verdict.suspects if one.rank is not None}, **hosts}
    seen = scene.seen()
    progress = seen.progress if seen is not None else (incident.progress if incident.progress_seen else None)
    by = incident.approval.by if incident.approval is not None else ""
    facts = replace(
        known,
        rank_hosts=hosts,
        nodes=nodes,
        suspected_before={} if was_of_many(incident) else known.suspected_before,
        progress=progress,
        elsewhere=can_elsewhere(scene.tools),
        group_ended=look is not None and look.state is GroupState.ENDED,
        approved=incident.approved_boundary,
        approved_by=by,
    )
    return facts, notes


def was_of_many(incident: Incident) -> bool:
    """Whether limits have held this incident: then it is one of many at once, which is the fabric. That its nodes were
    suspected before says nothing of them now (as `past_suspects` takes such an incident for no suspicion)."""
    return incident.decision is not None and incident.decision.waits_for_limits


def _look(scene: Scene) -> GroupLook | None:
    if scene.tools.group is None:
        return None
    deadline = scene.deadline.within(LOOK_SECONDS)
    return groups.look_at(scene.tools.group, deadline, lambda: scene.acting.given_up)
