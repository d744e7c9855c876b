"""From a verdict to what is done: the boundary, the course, who is fenced, who is tested again, and why. Pure.

The verdict says what is wrong, the table what must be rebuilt. Then come reasons to do less: the group moves again,
evidence decides nothing, many are hit at once. And reasons to do more: the same host again, nothing lives any more.
Every one of them is said in `why`, or in `held` where nothing is done.
"""

from __future__ import annotations

from dataclasses import replace

from rankmuster.incident.decide_case import MOVES, Case, DecideSettings, Facts, settings_of
from rankmuster.incident.recovery_rows import boundary_for
from rankmuster.incident.suspect_nodes import suspect_nodes
from rankmuster.model.fault import Boundary, FaultClass, Progress, Scope, Subkind
from rankmuster.model.incident import Course, Decision, OpenedBy, Opening
from rankmuster.model.verdict import Verdict

__all__ = ["DecideSettings", "Facts", "decide", "settings_of"]

NOTHING = Verdict(class_=FaultClass.INCONCLUSIVE)
"""What stands for a diagnosis that failed."""

UNDECIDED = (FaultClass.INCONCLUSIVE, FaultClass.BLIND)

LOST = (Subkind.GPU_LOST, Subkind.HOST_LOST)
"""A device or host is gone for good: positive evidence about one node, whatever its class of nodes does."""

WHEN_PEOPLE_SAY = "it is slow and serves: it is rebuilt when an operator approves, at a time that suits"

PATH_ENDS = 2
"""Nodes that a path has. Where more are suspected, and all of them for the second time, it is what they share."""

CLASS_WIDE = (FaultClass.PERFORMANCE_DEGRADATION,)
"""Faults that a change to a whole class of nodes (a driver, a firmware) makes look like a node's. What has stopped is
rebuilt all the same, in place: the breaker is what keeps many of them from it at once."""


def decide(verdict: Verdict | None, opening: Opening, facts: Facts, settings: DecideSettings) -> Decision:
    """What follows, before limits are asked (`within_limits`). `verdict` None: there is no diagnosis."""
    given = NOTHING if verdict is None else verdict
    progress = facts.progress if facts.progress is not None else opening.progress
    boundary, table, row = boundary_for(given.class_, given.subclass, given.confidence, progress, settings.rows)
    suspects = suspect_nodes(given, facts.nodes, facts.rank_hosts)
    case = Case(given, opening, facts, settings, progress, boundary, table, row, suspects)
    why = [f"the verdict is {case.named}; the recovery table says {table.value}" if verdict else "there is no verdict"]
    why += [row] if row else []
    if facts.approved is not None:
        by = facts.approved_by or "an operator"
        return _by_boundary(case, facts.approved, [*why, f"{by} approved {facts.approved.value}"], approved=True)
    return _held_back(case, why) or _undecided(case, why) or _by_boundary(case, _repeated(case, why), why)


def _held_back(case: Case, why: list[str]) -> Decision | None:
    """Reasons to do less than the boundary says; None where there is none."""
    verdict, facts = case.verdict, case.facts
    if case.progress in MOVES and not case.lost and not facts.group_ended:
        return _made(case, Course.RESTORE, Boundary.NONE, [*why, f"progress is {case.progress.value} again"])
    if case.gone:
        return None
    if verdict.class_ is FaultClass.HEALTHY and case.row is None:
        if case.progress is Progress.STOPPED:
            held = "the verdict is healthy, and the watch says that it has stopped: one of them is wrong"
            return _made(case, Course.HOLD, Boundary.NONE, why, held=held)
        if case.slow:
            # work advances: so it does in a slow group. Evidence of now knows no earlier rate, the watch does.
            return _made(case, Course.SHED, Boundary.INSTANCE, [*why, "the watch says that it is slow"])
        return _made(case, Course.RESTORE, Boundary.NONE, [*why, "nothing is wrong"])
    if verdict.scope is Scope.FLEET:
        held = "the verdict is about the fleet, not this instance: rebuilding it would not help"
        return _made(case, Course.HOLD, Boundary.CLUSTER, why, held=held)
    if facts.systematic and verdict.class_ in CLASS_WIDE:
        held = f"a whole class of nodes drifts ({facts.systematic}): neither a rebuild nor a fence helps one of them"
        return _made(case, Course.HOLD, Boundary.CLUSTER, why, held=held)
    return None


def _undecided(case: Case, why: list[str]) -> Decision | None:
    """What is done where the verdict does not decide, or is too weak; None where it decides."""
    verdict = case.verdict
    weak = case.weak and verdict.class_ is not FaultClass.HEALTHY
    nothing = verdict.class_ in UNDECIDED or (verdict.class_ is FaultClass.HEALTHY and case.gone)
    if case.row is not None or not (nothing or weak):
        return None
    reason = (
        "the verdict does not decide" if nothing else f"{case.named} is below {case.settings.least_confidence.value}"
    )
    if case.gone:
        added = f"{reason}; no process of the group lives, so nothing that works is ended"
        return _rebuild(case, Boundary.PROCESS_GROUP, [*why, added], fence=(), trusted=False)
    if case.slow:
        return _made(case, Course.SHED, Boundary.INSTANCE, [*why, f"{reason}; it is slow, so it is given less"])
    if case.progress is Progress.STOPPED and case.settings.undecided == "rebuild":
        added = f"{reason}; it has stopped, and what is undecided is rebuilt (undecided: rebuild)"
        return _rebuild(case, Boundary.PROCESS_GROUP, [*why, added], fence=(), trusted=False)
    return _made(case, Course.HOLD, case.boundary, why, held=reason)


def _repeated(case: Case, why: list[str]) -> Boundary:
    """The node, where a transport stall suspects a host that one has suspected lately."""
    if case.verdict.class_ is FaultClass.TRANSPORT_STALL and case.boundary is Boundary.PROCESS_GROUP:
        again = [node for node in case.suspects.named if node in case.facts.suspected_before]
        if again and case.row is None:
            told = ", ".join(f"{node} ({case.facts.suspected_before[node]})" for node in again)
            why.append(f"suspected before: {told}; so the boundary is the node")
            return Boundary.NODE
    return case.boundary


def _by_boundary(case: Case, boundary: Boundary, why: list[str], *, approved: bool = False) -> Decision:
    if boundary is Boundary.CLUSTER:
        held = "the boundary is the cluster, which no program rebuilds"
        return _made(case, Course.HOLD, boundary, why, held=held)
    if boundary is Boundary.NONE:
        if approved or case.verdict.class_ is FaultClass.HEALTHY:
            return _made(case, Course.RESTORE, boundary, why)
        return _made(
            case, Course.HOLD, boundary, why, held="nothing is to be rebuilt by the table or the operator's row"
        )
    if case.gone and boundary in (Boundary.REQUEST, Boundary.INSTANCE):
        return _rebuild(case, Boundary.PROCESS_GROUP, [*why, "no process of the group lives: it is started"], fence=())
    if boundary is Boundary.REQUEST:
        return _made(case, Course.CUT, boundary, why)
    if (boundary is Boundary.INSTANCE or case.only_slowness) and not approved:
        return _instance(case, boundary, why)
    if boundary is Boundary.INSTANCE:
        return _made(case, Course.SHED, boundary, why)
    if boundary is Boundary.PROCESS_GROUP:
        if case.slow and not case.lost and not approved:
            return _made(case, Course.SHED, Boundary.INSTANCE, [*why, "it is slow, not stopped: it is given less"])
        return _rebuild(case, boundary, why, fence=())
    fence = _to_fence(case, why, approved)
    return _rebuild(case, Boundary.NODE if fence else Boundary.PROCESS_GROUP, why, fence=fence)


def _instance(case: Case, boundary: Boundary, why: list[str]) -> Decision:
    """Less load helps what is slow. What has stopped has no use for it, nor for the fence of a slow node."""
    if case.progress is not Progress.STOPPED:
        return _made(case, Course.SHED, Boundary.INSTANCE, why)
    added = f"{case.named} says slow, and the watch says that it has stopped"
    if case.settings.undecided == "rebuild":
        return _rebuild(case, Boundary.PROCESS_GROUP, [*why, added], fence=(), trusted=False)
    return _made(case, Course.HOLD, boundary, why, held=added)


def _to_fence(case: Case, why: list[str], approved: bool) -> tuple[str, ...]:
    """Culprits' nodes, the one node of all suspects, or those that were suspected before. Else nobody, at first."""
    if case.facts.systematic and case.verdict.subclass not in LOST and not approved:
        why.append(f"nobody is fenced while a class of nodes drifts ({case.facts.systematic})")
        return ()
    suspects = case.suspects
    again = tuple(node for node in suspects.named if node in case.facts.suspected_before)
    if suspects.certain:
        return suspects.certain
    if again and case.verdict.class_ is FaultClass.TRANSPORT_STALL:
        if len(again) <= PATH_ENDS or len(again) < len(suspects.named):
            return again
        why.append(f"all {len(again)} suspects were suspected before: that tells nothing of one of them")
        return suspects.named if approved else ()
    if approved:
        return suspects.named
    if suspects.named:
        named = ", ".join(suspects.named)
        why.append(f"{named} are suspected and nothing tells which of them it is: nobody is fenced at first")
    else:
        lost = f" ({', '.join(suspects.lost)})" if suspects.lost else ""
        why.append(f"it is not known on which node the fault is{lost}: nobody can be fenced")
    return ()


def _rebuild(
    case: Case, boundary: Boundary, why: list[str], *, fence: tuple[str, ...], trusted: bool = True
) -> Decision:
    """`trusted`: whether the verdict's suspects are worth a re-test."""
    tested = fence
    if case.verdict.class_ is FaultClass.TRANSPORT_STALL or (not fence and case.boundary is Boundary.NODE):
        tested = tuple(dict.fromkeys((*fence, *case.suspects.named)))
    if not trusted:
        tested = ()
    elsewhere = case.facts.elsewhere and bool(tested)
    if tested:
        where = "the group is started elsewhere" if elsewhere else "the group is started in place"
        why = [*why, f"{', '.join(tested)} tested again; {where}"]
    profile = case.settings.incident_profile and case.verdict.class_ not in UNDECIDED
    waits = case.slow and case.facts.approved is None
    if waits and case.opening.by is not OpenedBy.SLOW:
        # its traffic was stopped, and it serves: it gets some again, and its rebuild is another day's work
        return _made(case, Course.SHED, Boundary.INSTANCE, [*why, "it is slow and serves: it is given less"])
    # Held, it takes no place of another rebuild while people are waited for; approved, it is decided once more.
    held = WHEN_PEOPLE_SAY if waits else None
    return replace(
        _made(case, Course.REBUILD if held is None else Course.HOLD, boundary, why, held=held),
        fence=fence,
        retest=tested,
        elsewhere=elsewhere,
        incident_profile=profile and case.verdict.subclass not in LOST,
    )


def _made(case: Case, course: Course, boundary: Boundary, why: list[str], *, held: str | None = None) -> Decision:
    return Decision(
        course=course,
        boundary=boundary,
        table=case.table,
        class_=case.verdict.class_,
        subclass=case.verdict.subclass,
        confidence=case.verdict.confidence,
        progress=case.progress,
        suspects=case.suspects.named,
        why=tuple(why),
        held=held,
    )
