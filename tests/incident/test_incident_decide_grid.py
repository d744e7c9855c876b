"""Every class and sub-kind, however sure, whoever opened it, whatever is seen by now: what must never be decided."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest

from rankmuster.diagnose.recovery import TABLE
from rankmuster.incident.decide import DecideSettings, Facts, decide
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Role, Scope, Subkind, SuspectKind
from rankmuster.model.incident import Course, Decision, OpenedBy, Opening
from rankmuster.model.verdict import Suspect, Verdict


def suspect(host: str | None, role: Role, rank: int | None = None) -> Suspect:
    return Suspect(kind=SuspectKind.RANK, host=host, rank=rank, role=role, why="")


WHO = {
    "nobody": (),
    "a culprit and its victim": (suspect("a", Role.CULPRIT), suspect("b", Role.VICTIM)),
    "two ends": (suspect("a", Role.SUSPECT), suspect("c", Role.SUSPECT), suspect("b", Role.VICTIM)),
    "one end is not known": (suspect("a", Role.SUSPECT), suspect(None, Role.SUSPECT, 5)),
    "victims alone": (suspect("b", Role.VICTIM),),
}
MOVES = (Progress.ADVANCING, Progress.IDLE)
UNDECIDED = (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE, FaultClass.BLIND)
GONE_FOR_GOOD = (None, Subkind.EXITED, Subkind.KILLED, Subkind.GPU_LOST, Subkind.HOST_LOST)
OPENED = {
    OpenedBy.STOPPED: Progress.STOPPED,
    OpenedBy.SLOW: Progress.SLOW,
    OpenedBy.ENDED: Progress.STOPPED,
    OpenedBy.OPERATOR: Progress.UNKNOWN,
}


def grid(**facts: object) -> Iterator[tuple[str, Verdict, Progress, OpenedBy, Decision]]:
    for (class_, subclass), sure, now, by, (who, suspects), scope in product(
        TABLE, (None, *Confidence), Progress, OpenedBy, WHO.items(), (Scope.INSTANCE, Scope.FLEET)
    ):
        found = Verdict(class_=class_, subclass=subclass, confidence=sure, suspects=suspects, scope=scope)
        given = Opening(instance="i", incarnation="first", by=by, progress=OPENED[by], at=1.0)
        made = decide(found, given, Facts(progress=now, **facts), DecideSettings())  # type: ignore[arg-type]
        yield f"{class_.value}/{subclass}/{sure}/{now.value}/{by.value}/{who}", found, now, by, made


@pytest.mark.parametrize("drift", [None, "driver 570"])
@pytest.mark.parametrize("before", [{}, {"a": "incident 1"}])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_what_is_never_decided(drift: str | None, before: dict[str, str], elsewhere: bool) -> None:
    for told, found, now, by, made in grid(systematic=drift, suspected_before=before, elsewhere=elsewhere):
        ended = by is OpenedBy.ENDED and now not in MOVES
        kills = made.course is Course.REBUILD and not ended
        lost = found.class_ is FaultClass.PROCESS_OR_DEVICE_LOST and found.subclass in GONE_FOR_GOOD
        weak = found.confidence in (None, Confidence.POSSIBLE)
        assert "b" not in (*made.fence, *made.retest), f"a victim: {told}"
        assert not {"a", "c"} <= set(made.fence), f"both ends at the first time: {told}"
        assert not (made.fence and weak), f"fenced on a lead: {told}"
        assert before or not (made.fence and "one end is not known" in told), f"fenced for being known: {told}"
        assert not (kills and (weak or found.class_ in UNDECIDED)), f"killed on nothing: {told}"
        assert not (kills and now in MOVES and not lost), f"killed what moves: {told}"
        assert not (kills and now is Progress.SLOW and (by is OpenedBy.SLOW or not lost)), f"killed what serves: {told}"
        assert not (kills and found.scope is Scope.FLEET), f"a storm: {told}"
        assert not (made.course is Course.RESTORE and (ended or now is Progress.STOPPED)), f"traffic for nobody: {told}"
        assert not (made.course is Course.RESTORE and now is Progress.SLOW), f"full weight for a slow one: {told}"
        assert not (made.course is Course.SHED and now is Progress.STOPPED), f"less for what does nothing: {told}"
        if drift is not None and found.subclass not in (Subkind.GPU_LOST, Subkind.HOST_LOST):
            assert made.fence == (), f"a class drifts: {told}"


def test_the_table_holds_where_nothing_speaks_against_it() -> None:
    for told, found, now, by, made in grid():
        assert made.table is TABLE[found.class_, found.subclass].boundary
        plain = now is Progress.STOPPED and by is OpenedBy.STOPPED and found.scope is Scope.INSTANCE
        if not plain or found.confidence is not Confidence.CONFIRMED or found.class_ in UNDECIDED:
            continue
        if found.class_ is FaultClass.PERFORMANCE_DEGRADATION:
            assert made.course is Course.HOLD, told
        elif made.table is Boundary.NODE and "a culprit" not in told:
            assert (made.course, made.boundary) == (Course.REBUILD, Boundary.PROCESS_GROUP), told
        else:
            assert (made.course, made.boundary) == (Course.REBUILD, made.table), told
