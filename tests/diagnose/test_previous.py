"""An earlier set of dumps tells a tail from a stop; one that is not earlier, or of another run, is never believed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import build_flight as fr
import pytest

from rankmuster.diagnose.run import Examination, diagnose, examine
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.dump_sets import Between, Since
from rankmuster.model.fault import Confidence, FaultClass, Progress


def gloo(**fields: Any) -> fr.World:
    """Without events, one look at it shows a tail and no sign of motion."""
    return fr.one_group(4, rounds=2000, backend="gloo", **fields)


def both(later: fr.World | Mapping[int, Any], earlier: fr.World | Mapping[int, Any], *more: Blob) -> Examination:
    tops = [fr.dumps(one) if isinstance(one, fr.World) else one for one in (later, earlier)]
    return examine(gather([*fr.blobs(tops[0]), *more]), earlier=gather(fr.blobs(tops[1])))


def between(found: Examination) -> Between:
    assert found.context.between is not None
    return found.context.between


def test_a_moving_job_is_healthy_although_one_look_shows_a_tail() -> None:
    alone = diagnose(gather(fr.blobs(fr.dumps(gloo(look=8.0)))))
    assert alone.verdict.class_ is not FaultClass.HEALTHY
    found = both(gloo(look=8.0), gloo(look=4.0))
    assert between(found).went_on == (0, 1, 2, 3)
    assert found.diagnosis.verdict.class_ is FaultClass.HEALTHY
    assert found.diagnosis.verdict.progress is Progress.ADVANCING


def test_a_slow_job_whose_calls_are_all_retired_moves() -> None:
    slow = {"rounds": 40, "step": 1.0, "looks": {2: 29.2}}
    found = both(fr.one_group(4, look=30.2, **slow), fr.one_group(4, rounds=40, step=1.0, look=20.2))
    assert between(found).since is Since.WENT_ON
    assert found.diagnosis.verdict.class_ is FaultClass.HEALTHY


def test_what_stands_in_both_sets_stands() -> None:
    found = both(gloo(look=12.0, stops={2: 400}), gloo(look=9.0, stops={2: 400}))
    assert between(found).since is Since.STANDS
    assert between(found).stood == (0, 1, 2, 3)
    assert fr.culprits(found.diagnosis) == [2]
    assert found.diagnosis.verdict.confidence is Confidence.LIKELY
    assert any("stop stands" in finding.statement for finding in found.findings)


def test_a_job_that_stopped_after_the_earlier_set_is_no_healthy_one() -> None:
    found = both(fr.one_group(4, rounds=2000, stops={2: 800}), fr.one_group(4, rounds=2000, stops={2: 800}, look=4.0))
    assert between(found).since is Since.STOPPED_SINCE
    assert fr.culprits(found.diagnosis) == [2]


def test_a_look_long_after_the_newest_record_is_a_stop() -> None:
    tops = fr.dumps(gloo(stops={2: 800}))
    looks = fr.manifest({f"flight/nccl_trace_rank_{rank}": fr.START + 60.0 for rank in tops})
    found = both(tops, gloo(look=4.0), looks)
    assert between(found).since is Since.STOPPED_SINCE
    assert fr.culprits(found.diagnosis) == [2]


def test_sets_between_which_ranks_only_made_their_last_calls_are_no_motion() -> None:
    found = both(gloo(stops={2: 400}), gloo(stops={2: 400}, look=3.97))
    assert between(found).since is Since.TOO_CLOSE
    assert fr.culprits(found.diagnosis) == [2]


def test_a_set_in_which_some_only_drain_their_queue_is_no_motion() -> None:
    found = both(gloo(stops={2: 400}), gloo(stops={2: 400}, looks={2: 500.0}, look=3.97))
    assert between(found).since is Since.MIXED
    assert between(found).stood == (2,)
    assert fr.culprits(found.diagnosis) == [2]


def test_an_operation_older_than_a_moving_jobs_tail_stands() -> None:
    later = fr.dumps(gloo(look=20.0))
    for entry in later[1]["entries"]:
        entry["retired"] = entry["collective_seq_id"] < 1000
    assert between(both(later, gloo(look=4.0))).since is Since.STOPPED_SINCE


def test_ranks_without_a_dump_in_both_sets_are_said_and_prove_no_motion() -> None:
    later = fr.dumps(gloo(look=8.0))
    earlier = {rank: top for rank, top in fr.dumps(gloo(look=4.0)).items() if rank != 3}
    found = between(both(later, earlier))
    assert (found.since, found.uncompared) == (Since.MIXED, (3,))


def test_sets_given_the_wrong_way_round_are_noticed() -> None:
    found = both(gloo(look=4.0), gloo(look=8.0))
    assert between(found).since is Since.NOT_EARLIER
    assert not between(found).believed
    assert found.diagnosis.verdict.class_ is not FaultClass.HEALTHY


@pytest.mark.parametrize("shift", [3_600_000_000_000, -3_600_000_000_000])
def test_a_set_of_another_run_is_noticed(shift: int) -> None:
    earlier = fr.dumps(gloo(look=4.0))
    for top in earlier.values():
        for entry in top["entries"]:
            entry["time_created_ns"] += shift
    found = both(gloo(look=8.0), earlier)
    assert between(found).since is Since.OTHER_RUN
    assert found.diagnosis.verdict.class_ is not FaultClass.HEALTHY


def test_the_earlier_dump_of_one_rank_alone_is_of_another_run() -> None:
    earlier = fr.dumps(gloo(look=4.0))
    for entry in earlier[1]["entries"]:
        entry["time_created_ns"] -= 10**12
    assert between(both(gloo(look=8.0), earlier)).strangers == (1,)


def test_rings_without_a_common_record_still_tell_which_is_earlier() -> None:
    later, earlier = gloo(look=18.0, ring=50), gloo(look=4.0, ring=50)
    assert between(both(later, earlier)).since is Since.WENT_ON
    assert between(both(earlier, later)).since is Since.NOT_EARLIER


def test_an_earlier_folder_without_dumps_is_said() -> None:
    assert between(both(gloo(look=8.0), {})).since is Since.NO_DUMPS


def test_without_an_earlier_set_nothing_is_said() -> None:
    found = examine(gather(fr.blobs(fr.dumps(gloo(look=8.0)))))
    assert found.context.between is None
    assert not any(finding.detector == "two-sets-of-dumps" for finding in found.findings)
