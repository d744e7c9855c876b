"""What follows from a verdict: the table, the operator's rows, reasons to do less and to do more."""

from __future__ import annotations

from typing import Any

import pytest

from rankmuster.diagnose.recovery import TABLE
from rankmuster.incident.config import IncidentConfig, RecoveryRow
from rankmuster.incident.decide import DecideSettings, Facts, decide, settings_of
from rankmuster.incident.memory_journal import MemoryJournal
from rankmuster.incident.past_suspects import suspected_before
from rankmuster.incident.recovery_rows import whole_table
from rankmuster.model.fault import (
    Boundary,
    Confidence,
    FaultClass,
    Progress,
    Role,
    Scope,
    Subkind,
    SuspectKind,
)
from rankmuster.model.incident import Course, Decision, Event, EventKind, OpenedBy, Opening, Step
from rankmuster.model.plain_json import Bounds, from_plain, to_plain
from rankmuster.model.verdict import Suspect, Verdict

BOUNDS = Bounds(text=10_000, members=1_000)
AT = 1_790_000_000.0
STALL = (FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST)


def opening(by: OpenedBy = OpenedBy.STOPPED, progress: Progress = Progress.STOPPED, **values: Any) -> Opening:
    return Opening(**{"instance": "llm-0", "incarnation": "first", "by": by, "progress": progress, "at": AT, **values})


SLOW = opening(OpenedBy.SLOW, Progress.SLOW)


def suspect(host: str | None, role: Role = Role.CULPRIT, rank: int | None = None) -> Suspect:
    return Suspect(kind=SuspectKind.RANK, host=host, rank=rank, role=role, why="behind")


def verdict(
    class_: FaultClass = FaultClass.COLLECTIVE_DESYNC,
    subclass: Subkind | None = Subkind.MISSING_ENTER,
    confidence: Confidence | None = Confidence.CONFIRMED,
    suspects: tuple[Suspect, ...] = (),
    **values: Any,
) -> Verdict:
    return Verdict(class_=class_, subclass=subclass, confidence=confidence, suspects=suspects, **values)


def made(
    found: Verdict | None, given: Opening | None = None, settings: DecideSettings | None = None, **facts: Any
) -> Decision:
    decision = decide(found, given or opening(), Facts(**facts), settings or DecideSettings())
    assert from_plain(Decision, to_plain(decision, BOUNDS), BOUNDS) == decision
    assert (decision.held is not None) == (decision.course is Course.HOLD)
    assert set(decision.fence) <= set(decision.suspects)
    return decision


@pytest.mark.parametrize(("class_", "subclass"), list(TABLE))
def test_every_row_of_the_table_has_a_course(class_: FaultClass, subclass: Subkind | None) -> None:
    found = made(verdict(class_, subclass, suspects=(suspect("a"), suspect("b", Role.VICTIM))))
    assert found.table is TABLE[class_, subclass].boundary
    courses = {
        Boundary.PROCESS_GROUP: Course.REBUILD,
        Boundary.NODE: Course.REBUILD,
        Boundary.INSTANCE: Course.HOLD,  # it has stopped, and less load helps what is slow
        Boundary.NONE: Course.HOLD,
    }
    if class_ is FaultClass.PERFORMANCE_DEGRADATION:
        courses[Boundary.NODE] = Course.HOLD  # likewise: a slow node explains no stop
    assert found.course is courses[found.table]
    assert "b" not in (*found.fence, *found.retest), "a victim is neither fenced nor tested"
    if found.table is Boundary.NODE and found.course is Course.REBUILD:
        assert found.fence == ("a",)


def test_the_operators_first_row_that_fits_comes_before_the_table() -> None:
    rows = (
        RecoveryRow(subclass=Subkind.OP_MISMATCH, boundary=Boundary.NODE),
        RecoveryRow(class_=FaultClass.COLLECTIVE_DESYNC, confidence=Confidence.LIKELY, boundary=Boundary.REQUEST),
        RecoveryRow(class_=FaultClass.COLLECTIVE_DESYNC, boundary=Boundary.CLUSTER, reason="ask first"),
        RecoveryRow(boundary=Boundary.NONE),
    )
    settings = DecideSettings(rows=rows)
    found = made(verdict(), settings=settings)
    assert (found.course, found.boundary, found.table) == (Course.HOLD, Boundary.CLUSTER, Boundary.PROCESS_GROUP)
    assert "recovery row 3 says cluster: ask first" in found.why
    assert made(verdict(confidence=Confidence.LIKELY), settings=settings).course is Course.CUT
    assert made(verdict(*STALL), settings=settings).boundary is Boundary.NONE


def test_a_row_may_decide_what_the_verdict_does_not() -> None:
    settings = DecideSettings(rows=(RecoveryRow(class_=FaultClass.INCONCLUSIVE, boundary=Boundary.PROCESS_GROUP),))
    assert made(verdict(FaultClass.INCONCLUSIVE, None, None), settings=settings).course is Course.REBUILD


def test_the_whole_table_says_what_rows_make_of_it() -> None:
    rows = (
        RecoveryRow(class_=FaultClass.TRANSPORT_STALL, confidence=Confidence.POSSIBLE, boundary=Boundary.NONE),
        RecoveryRow(subclass=Subkind.PATH_LOST, boundary=Boundary.NODE),
        RecoveryRow(class_=FaultClass.TRANSPORT_STALL, boundary=Boundary.CLUSTER),
    )
    found = {(row.class_, row.subclass): row for row in whole_table(rows)}
    assert set(found) == set(TABLE)
    lost = found[STALL]
    assert (lost.table, lost.boundary, [number for number, _ in lost.rows]) == (Boundary.PROCESS_GROUP, None, [1, 2])
    assert found[FaultClass.TRANSPORT_STALL, Subkind.LINK_ERROR].rows[-1][0] == 3
    assert found[FaultClass.HEALTHY, None].boundary is Boundary.NONE
    assert found[FaultClass.HEALTHY, None].rows == ()


# -- reasons to do less


@pytest.mark.parametrize("progress", [Progress.ADVANCING, Progress.IDLE])
def test_what_moves_again_gets_its_traffic_back_unless_something_is_lost(progress: Progress) -> None:
    assert made(verdict(), progress=progress).course is Course.RESTORE
    lost = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED, suspects=(suspect("a"),))
    assert made(lost, progress=progress).course is Course.REBUILD
    weak = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED, Confidence.POSSIBLE)
    assert made(weak, progress=progress).course is Course.RESTORE


@pytest.mark.parametrize("subclass", [Subkind.UNRESPONSIVE, Subkind.GPU_STALLED])
def test_what_was_frozen_and_moves_again_is_not_killed(subclass: Subkind) -> None:
    frozen = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, subclass, suspects=(suspect("a"),))
    assert made(frozen).course is Course.REBUILD
    assert made(frozen, progress=Progress.ADVANCING).course is Course.RESTORE


def test_a_healthy_one_is_restored_and_one_that_the_watch_contradicts_is_held() -> None:
    healthy = verdict(FaultClass.HEALTHY, None, None)
    assert made(healthy, opening(progress=Progress.UNKNOWN)).course is Course.RESTORE
    assert made(healthy).course is Course.HOLD


@pytest.mark.parametrize("class_", [FaultClass.INCONCLUSIVE, FaultClass.BLIND, None])
def test_what_is_not_decided_is_held_or_rebuilt_as_the_operator_wants(class_: FaultClass | None) -> None:
    found = None if class_ is None else verdict(class_, None, None)
    assert made(found).course is Course.HOLD
    rebuilt = made(found, settings=DecideSettings(undecided="rebuild"))
    assert (rebuilt.course, rebuilt.boundary) == (Course.REBUILD, Boundary.PROCESS_GROUP)
    assert made(found, opening(progress=Progress.UNKNOWN), DecideSettings(undecided="rebuild")).course is Course.HOLD
    assert made(found, SLOW).course is Course.SHED


@pytest.mark.parametrize("class_", [FaultClass.INCONCLUSIVE, FaultClass.BLIND, FaultClass.HEALTHY, None])
def test_where_nothing_lives_nothing_can_be_killed(class_: FaultClass | None) -> None:
    found = None if class_ is None else verdict(class_, None, None)
    ended = opening(OpenedBy.ENDED, Progress.UNKNOWN)
    assert made(found, ended).course is Course.REBUILD
    assert made(found, group_ended=True).course is Course.REBUILD


def test_a_weak_verdict_does_nothing_and_fences_nobody() -> None:
    weak = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, Confidence.POSSIBLE, (suspect("a"),))
    assert made(weak).course is Course.HOLD
    rebuilt = made(weak, settings=DecideSettings(undecided="rebuild"))
    assert (rebuilt.course, rebuilt.fence, rebuilt.retest) == (Course.REBUILD, (), ())
    assert made(weak, settings=DecideSettings(least_confidence=Confidence.POSSIBLE)).fence == ("a",)
    likely = verdict(confidence=Confidence.LIKELY)
    assert made(likely, settings=DecideSettings(least_confidence=Confidence.CONFIRMED)).course is Course.HOLD


def test_a_fault_of_the_fleet_is_held() -> None:
    found = made(verdict(*STALL, scope=Scope.FLEET))
    assert (found.course, found.boundary) == (Course.HOLD, Boundary.CLUSTER)


def test_a_class_of_nodes_that_drifts_is_nobodys_fault() -> None:
    slow = verdict(FaultClass.PERFORMANCE_DEGRADATION, Subkind.DRIFT, suspects=(suspect("a"),))
    found = made(slow, SLOW, systematic="driver 570 since Tuesday")
    assert (found.course, found.boundary, found.fence) == (Course.HOLD, Boundary.CLUSTER, ())
    assert "driver 570 since Tuesday" in (found.held or "")


def test_while_a_class_drifts_what_has_stopped_is_rebuilt_and_only_lost_nodes_are_fenced() -> None:
    stall = verdict(*STALL, suspects=(suspect("a"),))
    found = made(stall, systematic="driver", suspected_before={"a": "incident 7"})
    assert (found.course, found.fence) == (Course.REBUILD, ())
    lost = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, suspects=(suspect("a"),))
    assert made(lost, systematic="driver").fence == ("a",)


# -- slow


@pytest.mark.parametrize("by", [OpenedBy.STOPPED, OpenedBy.OPERATOR])
def test_one_that_is_slow_by_now_is_given_less_whoever_opened_it(by: OpenedBy) -> None:
    given = opening(by)
    for found in (verdict(), verdict(*STALL), verdict(FaultClass.HEALTHY, None), None):
        assert made(found, given, progress=Progress.SLOW).course is Course.SHED
    drifts = verdict(FaultClass.PERFORMANCE_DEGRADATION, Subkind.DRIFT, suspects=(suspect("a"),))
    assert made(drifts, given, progress=Progress.SLOW).course is Course.SHED
    killed = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED)
    assert made(killed, given, progress=Progress.SLOW).course is Course.REBUILD


def test_that_work_advances_does_not_contradict_a_watch_that_calls_it_slow() -> None:
    assert made(verdict(FaultClass.HEALTHY, None, Confidence.CONFIRMED), SLOW).course is Course.SHED


@pytest.mark.parametrize("subclass", [Subkind.DRIFT, Subkind.WRONG_PATH, Subkind.PERSISTENT])
def test_slowness_explains_no_stop_so_nobody_is_fenced_for_it(subclass: Subkind) -> None:
    slow = verdict(FaultClass.PERFORMANCE_DEGRADATION, subclass, suspects=(suspect("a"),))
    held = made(slow)
    assert held.course is Course.HOLD
    assert "the watch says that it has stopped" in (held.held or "")
    rebuilt = made(slow, settings=DecideSettings(undecided="rebuild"))
    assert (rebuilt.course, rebuilt.fence, rebuilt.retest) == (Course.REBUILD, (), ())
    if subclass is not Subkind.PERSISTENT:
        assert made(slow, approved=Boundary.NODE).fence == ("a",)


def test_a_slow_one_is_given_less_and_nothing_is_rebuilt() -> None:
    slow = verdict(FaultClass.PERFORMANCE_DEGRADATION, Subkind.PERSISTENT)
    assert made(slow, SLOW).course is Course.SHED
    assert made(verdict(), SLOW).course is Course.SHED


def test_a_slow_one_whose_node_is_at_fault_waits_for_people_first() -> None:
    slow = verdict(FaultClass.PERFORMANCE_DEGRADATION, Subkind.WRONG_PATH, suspects=(suspect("a"),))
    held = made(slow, SLOW, elsewhere=True)
    assert (held.course, held.boundary, held.fence, held.elsewhere) == (Course.HOLD, Boundary.NODE, ("a",), True)
    approved = made(slow, SLOW, elsewhere=True, approved=Boundary.NODE, approved_by="kim")
    assert (approved.course, approved.fence) == (Course.REBUILD, ("a",))
    assert "kim approved node" in approved.why


def test_one_that_stopped_while_it_was_looked_at_is_rebuilt() -> None:
    lost = verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.KILLED, suspects=(suspect("a"),))
    assert made(lost, SLOW, progress=Progress.STOPPED).course is Course.REBUILD


# -- who


def test_a_suspect_is_known_by_its_host_or_its_rank() -> None:
    lost = (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST)
    found = made(verdict(*lost, suspects=(suspect("10.0.0.7"),)), nodes={"10.0.0.7": "gpu-7"})
    assert found.fence == ("gpu-7",)
    assert made(verdict(*lost, suspects=(suspect(None, rank=3),)), rank_hosts={3: "b"}).fence == ("b",)
    unknown = made(verdict(*lost, suspects=(suspect(None, rank=3),)))
    assert (unknown.course, unknown.boundary, unknown.fence) == (Course.REBUILD, Boundary.PROCESS_GROUP, ())
    assert any("rank 3" in line for line in unknown.why)


def test_of_two_suspects_nobody_is_fenced_at_first_and_both_are_tested() -> None:
    both = (suspect("a", Role.SUSPECT), suspect("b", Role.SUSPECT))
    found = made(verdict(*STALL, suspects=both), elsewhere=True)
    assert (found.boundary, found.fence, found.retest, found.elsewhere) == (
        Boundary.PROCESS_GROUP,
        (),
        ("a", "b"),
        True,
    )
    lost = made(verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.HOST_LOST, suspects=both))
    assert (lost.boundary, lost.fence, lost.retest) == (Boundary.PROCESS_GROUP, (), ("a", "b"))


def test_two_suspects_on_one_node_are_that_node() -> None:
    both = (suspect("a", Role.SUSPECT, 0), suspect("a", Role.SUSPECT, 1))
    assert made(verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST, suspects=both)).fence == ("a",)


@pytest.mark.parametrize("other", [Role.SUSPECT, Role.CULPRIT])
def test_the_only_suspect_whose_node_is_known_is_not_fenced_for_that(other: Role) -> None:
    lost = (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST)
    found = made(verdict(*lost, suspects=(suspect("a", Role.SUSPECT), suspect(None, other, 5))))
    assert (found.course, found.fence, found.retest) == (Course.REBUILD, (), ("a",))
    culprit = made(verdict(*lost, suspects=(suspect("a"), suspect(None, other, 5))))
    assert culprit.fence == ("a",)


def test_a_link_that_is_suspected_beside_its_node_hides_no_other_node() -> None:
    link = Suspect(kind=SuspectKind.LINK, link="mlx5_0", role=Role.SUSPECT, why="its port is down")
    lost = (FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.HOST_LOST)
    assert made(verdict(*lost, suspects=(suspect("a", Role.SUSPECT), link))).fence == ("a",)


def test_a_host_that_a_stall_suspects_again_is_the_node() -> None:
    both = (suspect("a", Role.SUSPECT), suspect("b", Role.SUSPECT))
    found = made(verdict(*STALL, suspects=both), suspected_before={"b": "incident 7, 2026-09-20"})
    assert (found.boundary, found.fence) == (Boundary.NODE, ("b",))
    assert any("incident 7" in line for line in found.why)
    assert made(verdict(suspects=both), suspected_before={"b": "incident 7"}).fence == ()


def test_that_all_of_many_are_suspected_again_convicts_none_of_them() -> None:
    many = tuple(suspect(f"n{number}", Role.SUSPECT) for number in range(8))
    before = {one.host: "incident 7" for one in many if one.host is not None}
    stall = verdict(FaultClass.TRANSPORT_STALL, Subkind.ALL_ENTERED_NONE_LEFT, suspects=many)
    found = made(stall, suspected_before=before)
    assert (found.course, found.boundary, found.fence) == (Course.REBUILD, Boundary.PROCESS_GROUP, ())
    assert made(stall, suspected_before=dict(list(before.items())[:3])).fence == ("n0", "n1", "n2")
    assert made(verdict(*STALL, suspects=many[:2]), suspected_before=before).fence == ("n0", "n1")
    assert len(made(stall, suspected_before=before, approved=Boundary.NODE).fence) == 8


def test_one_incarnation_gets_the_incident_profile_where_more_can_be_seen() -> None:
    assert made(verdict()).incident_profile
    assert not made(verdict(), settings=DecideSettings(incident_profile=False)).incident_profile
    assert not made(verdict(FaultClass.PROCESS_OR_DEVICE_LOST, Subkind.GPU_LOST)).incident_profile
    assert not made(None, group_ended=True).incident_profile


# -- operators


@pytest.mark.parametrize(
    ("boundary", "course"),
    [
        (Boundary.NONE, Course.RESTORE),
        (Boundary.REQUEST, Course.CUT),
        (Boundary.INSTANCE, Course.SHED),
        (Boundary.PROCESS_GROUP, Course.REBUILD),
        (Boundary.NODE, Course.REBUILD),
        (Boundary.CLUSTER, Course.HOLD),
    ],
)
def test_what_an_operator_names_is_done(boundary: Boundary, course: Course) -> None:
    found = made(None, approved=boundary, approved_by="kim")
    assert found.course is course
    both = (suspect("a", Role.SUSPECT), suspect("b", Role.SUSPECT))
    fenced = made(verdict(*STALL, suspects=both), approved=boundary).fence
    assert fenced == (("a", "b") if boundary is Boundary.NODE else ())


def test_settings_come_from_the_configuration() -> None:
    rows = (RecoveryRow(boundary=Boundary.NONE),)
    config = IncidentConfig(recovery=rows, undecided="rebuild", least_confidence=Confidence.CONFIRMED)
    found = settings_of(config)
    assert (found.rows, found.undecided, found.least_confidence) == (rows, "rebuild", Confidence.CONFIRMED)


# -- the past


def test_stalls_of_the_last_days_suspect_their_nodes_and_those_that_limits_held_do_not() -> None:
    journal = MemoryJournal(lambda: 0.0)

    def past(instance: str, days: float, found: Decision) -> str:
        name, _ = journal.open_incident(opening(instance=instance, at=AT - days * 86_400), "r")
        lease = journal.take_lease(instance, "r", 10)
        assert lease is not None
        event = Event(kind=EventKind.DECIDED, at=AT, step=Step.DECIDE, data=to_plain(found, BOUNDS))
        journal.append(name, lease, event)
        return name

    def stall(node: str, **values: Any) -> Decision:
        found = made(verdict(*STALL, suspects=(suspect(node),)))
        return Decision(**{name: getattr(found, name) for name in Decision.__dataclass_fields__} | values)

    old = past("a", 9, stall("old"))
    lately = past("b", 2, stall("lately"))
    past("c", 1, stall("held", course=Course.HOLD, held="4 are rebuilt now", waits_for_limits=True))
    past("d", 1, made(verdict(suspects=(suspect("other"),))))
    own = past("e", 0, stall("own"))
    found = suspected_before(journal, own, AT, 7 * 86_400)
    assert set(found) == {"lately"}
    assert lately in found["lately"]
    assert old not in str(found)
