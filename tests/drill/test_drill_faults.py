from __future__ import annotations

from dataclasses import replace

import pytest

from rankmuster.drill.__main__ import catalogue
from rankmuster.drill.faults import FAULTS, Deed, When, fault_named, register
from rankmuster.drill.plan import Backend, JobPlan
from rankmuster.drill.truth import Naming
from rankmuster.model.fault import CLASS_OF, FaultClass

ASKED_FOR = {"none", "idle", "skip", "stop", "kill", "freeze", "wrong_size", "graph_stop", "init_absent", "slow"}


def test_all_faults_that_the_drill_is_for_are_there() -> None:
    assert set(FAULTS) >= ASKED_FOR


@pytest.mark.parametrize("name", sorted(ASKED_FOR))
def test_what_is_right_does_not_contradict_itself(name: str) -> None:
    for truth in fault_named(name).truths.values():
        assert truth.classes
        assert {CLASS_OF[kind] for kind in truth.subkinds} <= set(truth.classes)
        if truth.classes == (FaultClass.HEALTHY,):
            assert truth.naming is Naming.NOBODY
        if len(truth.classes) > 1 or truth.naming is Naming.MAY:
            assert truth.why, "several right answers need a reason"


def test_a_graph_cannot_be_stopped_where_there_is_none() -> None:
    with pytest.raises(ValueError, match=r"graph_stop cannot be made with gloo .* it can with nccl"):
        fault_named("graph_stop").truth(Backend.GLOO)


def test_a_fault_that_nobody_knows_is_answered_with_those_there_are() -> None:
    with pytest.raises(ValueError, match="no fault named 'gremlin'; there are none, idle, skip"):
        fault_named("gremlin")


def test_a_new_fault_is_added_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankmuster.drill.faults.FAULTS", dict(FAULTS))
    added = register(replace(fault_named("stop"), name="stop-twice"))
    assert fault_named("stop-twice") is added
    with pytest.raises(ValueError, match="a fault named stop-twice already"):
        register(added)


@pytest.mark.parametrize(
    ("when", "deed", "signal"),
    [
        (When.NEVER, Deed.STOP, None),
        (When.OUTSIDE, None, None),
        (When.OUTSIDE, Deed.STOP, 9),
        (When.ARMED, None, 9),
        (When.START, None, None),
    ],
)
def test_a_fault_that_nothing_or_two_things_would_make_is_refused(
    when: When, deed: Deed | None, signal: int | None
) -> None:
    with pytest.raises(ValueError, match="odd: made"):
        register(replace(fault_named("none"), name="odd", when=when, deed=deed, signal=signal))


def test_the_catalogue_names_them_all() -> None:
    text = catalogue()
    assert all(f"{name}: " in text for name in FAULTS)


def test_a_plan_reads_back_as_it_was() -> None:
    plan = JobPlan("llm-0", 4, Backend.NCCL, fault="stop", culprit=2, graph=True, debug_server=True)
    assert JobPlan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"ranks": 1}, "nobody to wait for"),
        ({"culprit": 3}, "rank 3 is not in a job of 3 ranks"),
        ({"culprit": -1}, "rank -1 is not"),
        ({"graph": True}, "CUDA graph"),
        ({"sync_every": 0}, "at least 1"),
    ],
)
def test_a_job_that_cannot_be_is_refused(wrong: dict[str, int], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        JobPlan.small("llm-0", **{"ranks": 3, **wrong})
