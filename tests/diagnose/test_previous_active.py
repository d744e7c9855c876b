"""Two sets of dumps that list outstanding operations alone: what has finished shows by the counters, or not at all."""

from __future__ import annotations

from typing import Any

import build_flight as fr
import pytest

from rankmuster.diagnose.run import Examination, examine
from rankmuster.evidence.bundle import gather
from rankmuster.model.dump_sets import Between, Since
from rankmuster.model.fault import FaultClass


def active(**fields: Any) -> fr.World:
    return fr.one_group(4, rounds=2000, only_active=True, **fields)


def both(later: fr.World, earlier: fr.World, **looks: float) -> Examination:
    tops = fr.dumps(later)
    more = [
        fr.manifest({f"flight/nccl_trace_rank_{rank}": fr.START + look for rank in tops}) for look in looks.values()
    ]
    return examine(gather([*fr.blobs(tops), *more]), earlier=gather(fr.blobs(fr.dumps(earlier))))


def between(found: Examination) -> Between:
    assert found.context.between is not None
    return found.context.between


@pytest.mark.parametrize("look", [8.0, 8.004, 8.007, 8.0131])
def test_a_moving_job_is_no_stop_because_such_dumps_cannot_show_its_motion(look: float) -> None:
    """Their finished entries are what shows it, and these they leave out."""
    found = both(active(look=look, looks={2: look - 0.012}), active(look=4.0))
    assert between(found).since is not Since.STOPPED_SINCE
    assert fr.culprits(found.diagnosis) == fr.suspects(found.diagnosis) == []
    assert found.diagnosis.verdict.class_ in (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE)


def test_nor_is_one_that_has_stopped_since_a_moving_one() -> None:
    found = both(active(stops={2: 800}), active(stops={2: 800}, look=4.0))
    assert found.diagnosis.verdict.class_ is not FaultClass.HEALTHY


def test_where_the_later_look_is_noted_the_stop_is_told() -> None:
    found = both(active(stops={2: 800}, look=60.0), active(stops={2: 800}, look=4.0), noted=60.0)
    assert between(found).since is Since.STOPPED_SINCE
    assert fr.culprits(found.diagnosis) == [2]


def test_a_rank_with_nothing_outstanding_left_a_dump_all_the_same() -> None:
    found = both(active(stops={2: 400}), active(stops={2: 400}, look=9.0))
    assert between(found).uncompared == ()
    assert (between(found).since, between(found).stood) == (Since.STANDS, (0, 1, 2, 3))
    assert fr.culprits(found.diagnosis) == [2]


def test_what_the_counters_completed_moved_although_the_ring_holds_what_is_enqueued_alone() -> None:
    """The ring is shorter than what the host is ahead, and the host has enqueued all that there is."""
    far = {"rounds": 400, "ahead": 400, "step": 0.02, "host": 0.001, "ring": 120}
    found = examine(
        gather(fr.blobs(fr.dumps(fr.one_group(4, look=5.0, **far)))),
        earlier=gather(fr.blobs(fr.dumps(fr.one_group(4, look=2.0, **far)))),
    )
    assert between(found).stood == ()
    assert between(found).since is not Since.STANDS


def test_stalls_are_not_certain_because_dumps_that_leave_out_what_has_ended_show_no_motion() -> None:
    """Two dumps of a moving job, a moment apart."""
    for look in (3.0, 3.003, 3.006, 3.009):
        found = fr.judge(fr.one_group(2, rounds=1000, only_active=True, look=look, looks={0: look - 0.04}, ahead=2))
        assert fr.culprits(found) == []
