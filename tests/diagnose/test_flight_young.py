"""Outstanding operations beside a look time that was noted: whose age convicts, and whose does not."""

from __future__ import annotations

import pytest
from build_flight import START, World, culprits, dumps, judge, manifest, one_group, suspects

from rankmuster.diagnose.run import Diagnosis
from rankmuster.model.fault import FaultClass

LEAD = {"rounds": 600, "ahead": 200, "step": 0.02, "host": 0.001}
"""A host 200 calls, four seconds, ahead of its GPU: what stands at the head was enqueued that long ago in health."""


def looked(world: World, at: float) -> Diagnosis:
    """The diagnosis of dumps of which a manifest says when they were taken; `at`: seconds after START."""
    tops = dumps(world)
    return judge(tops, manifest({f"flight/nccl_trace_rank_{rank}": START + at for rank in tops}))


@pytest.mark.parametrize("timing", [False, True])
@pytest.mark.parametrize("at", [3.0, 4.013, 7.0, 8.507])
@pytest.mark.parametrize("form", [{"only_active": True}, {"backend": "gloo"}, {"backend": "nccl2"}, {}])
def test_a_host_far_ahead_in_a_moving_job_is_no_stop(timing: bool, at: float, form: dict[str, object]) -> None:
    found = looked(one_group(4, look=at, timing=timing, **LEAD, **form), at)
    assert found.verdict.class_ in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE)
    assert culprits(found) == suspects(found) == []


@pytest.mark.parametrize("form", [{"only_active": True}, {"backend": "gloo"}, {}])
def test_seconds_after_a_host_far_ahead_ceased_to_enqueue_it_is_one(form: dict[str, object]) -> None:
    world = one_group(4, stops={2: 300}, look=25.0, **LEAD, **form)
    assert culprits(looked(world, 25.0)) == [2]


def test_calls_that_take_longer_than_the_sweep_are_no_stop_while_they_end() -> None:
    """What was enqueued long ago has come to the head of its group's stream only now."""
    at = 30.2
    found = looked(one_group(4, rounds=100, ahead=20, step=0.5, host=0.001, timing=True, look=at), at)
    assert found.verdict.class_ in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE)


def test_a_look_noted_before_what_the_dump_holds_is_told_as_such() -> None:
    found = looked(one_group(4, rounds=60, stops={2: 40}), -300.0)
    assert culprits(found) == []
    told = [finding.statement for finding in found.verdict.findings if finding.detector == "who-waits-for-whom"]
    assert any("clock" in statement for statement in told)
    assert not any("just enqueued" in statement for statement in told)
