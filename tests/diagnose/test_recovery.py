"""The recovery table covers every fault and never recommends what the design forbids."""

from __future__ import annotations

import re

import pytest

from rankmuster.diagnose.recovery import SAVE_ALL, TABLE, recovery_for
from rankmuster.model.fault import SUBKINDS, Boundary, FaultClass, Subkind

KINDS = [(class_, sub) for class_, subs in SUBKINDS.items() for sub in (None, *subs)]
FAULTS = [kind for kind in KINDS if kind[0] not in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE, FaultClass.BLIND)]

# DESIGN, "Classes, sub-kinds, progress", last column, for what is not a rebuilt process group
OTHER_BOUNDARIES = {
    Subkind.FABRIC_NOT_READY: Boundary.NODE,
    Subkind.PERSISTENT: Boundary.INSTANCE,
    Subkind.TAIL: Boundary.INSTANCE,
    Subkind.DRIFT: Boundary.NODE,
    Subkind.WRONG_PATH: Boundary.NODE,
    Subkind.GPU_LOST: Boundary.NODE,
    Subkind.HOST_LOST: Boundary.NODE,
}


def test_every_sub_kind_and_every_class_has_its_own_row() -> None:
    assert set(TABLE) == set(KINDS)


@pytest.mark.parametrize(("class_", "sub"), [kind for kind in FAULTS if kind[1] is not None])
def test_boundary_is_the_designs(class_: FaultClass, sub: Subkind) -> None:
    assert recovery_for(class_, sub).boundary is OTHER_BOUNDARIES.get(sub, Boundary.PROCESS_GROUP)


@pytest.mark.parametrize("class_", [FaultClass.HEALTHY, FaultClass.INCONCLUSIVE, FaultClass.BLIND])
def test_an_answer_that_is_no_fault_rebuilds_nothing(class_: FaultClass) -> None:
    assert recovery_for(class_).boundary is Boundary.NONE


def test_undecided_says_what_would_decide_and_that_it_is_not_health() -> None:
    for class_ in (FaultClass.INCONCLUSIVE, FaultClass.BLIND):
        row = recovery_for(class_)
        assert row.steps
        assert any("for health" in line for line in row.do_not)


def test_healthy_asks_for_nothing() -> None:
    row = recovery_for(FaultClass.HEALTHY)
    assert row.steps == ()
    assert row.do_not == ()


@pytest.mark.parametrize(("class_", "sub"), FAULTS)
def test_evidence_is_saved_before_anything_else(class_: FaultClass, sub: Subkind | None) -> None:
    steps = recovery_for(class_, sub).steps
    assert steps[0].startswith("Save ")
    ends = [i for i, step in enumerate(steps) if re.match(r"End |Fence |Start ", step)]
    assert all(i > 0 for i in ends)


@pytest.mark.parametrize(("class_", "sub"), FAULTS)
def test_a_process_group_ends_and_starts_as_a_whole(class_: FaultClass, sub: Subkind | None) -> None:
    row = recovery_for(class_, sub)
    if row.boundary is Boundary.PROCESS_GROUP:
        end = next(i for i, step in enumerate(row.steps) if step.startswith("End every process"))
        start = next(i for i, step in enumerate(row.steps) if step.startswith("Start the whole process group"))
        assert end < start
        assert any("one rank" in line for line in row.do_not)


@pytest.mark.parametrize(("class_", "sub"), FAULTS)
def test_a_node_is_fenced_before_it_is_repaired_and_tested_before_it_serves(
    class_: FaultClass, sub: Subkind | None
) -> None:
    row = recovery_for(class_, sub)
    if row.boundary is Boundary.NODE:
        text = " ".join(row.steps).lower()
        assert "fence" in text
        assert "passed its checks" in row.steps[-1] or "passed its checks" in row.steps[-2]


def test_a_stalled_transport_tests_its_suspects_and_escalates_to_the_node() -> None:
    steps = recovery_for(FaultClass.TRANSPORT_STALL, Subkind.PATH_LOST).steps
    again = next(i for i, step in enumerate(steps) if step.startswith("Test the suspect hosts again"))
    rebuilt = next(i for i, step in enumerate(steps) if step.startswith("Start the whole process group"))
    assert again < rebuilt
    assert "second time" in steps[-1]
    assert "node" in steps[-1]


def test_slowness_rebuilds_nothing_and_sheds_load() -> None:
    for sub in (Subkind.PERSISTENT, Subkind.TAIL):
        row = recovery_for(FaultClass.PERFORMANCE_DEGRADATION, sub)
        assert any("Shed load" in step for step in row.steps)
        assert not any(step.startswith(("End every", "Start the whole")) for step in row.steps)


def test_no_step_restarts_a_single_rank() -> None:
    for row in TABLE.values():
        assert not any(re.search(r"\brestart (the|one|this) rank\b", step, re.IGNORECASE) for step in row.steps)


def test_saving_has_a_deadline_where_a_live_group_is_ended() -> None:
    assert "within one minute" in SAVE_ALL


def test_a_sub_kind_of_another_class_falls_back_to_the_classes_own_row() -> None:
    assert recovery_for(FaultClass.INIT_STUCK, Subkind.TAIL) is TABLE[(FaultClass.INIT_STUCK, None)]
