"""A dump that is a little older than its peers', where nothing can show that the job moved when it was taken."""

from __future__ import annotations

import pytest
from build_flight import Group, World, culprits, dumps, judge, one_group, recv, send

from rankmuster.model.fault import FaultClass


@pytest.mark.parametrize("old", [0, 1, 3])
def test_active_operations_alone_that_end_where_the_peers_finished_convict_nobody(old: int) -> None:
    """Rank `old` stands, in its older dump, at what its peers have finished since: as a stalled GPU would."""
    world = one_group(4, rounds=60, stalls={2: 40}, only_active=True, ahead=1, timing=True)
    early = one_group(4, rounds=60, stalls={2: 40}, only_active=True, ahead=1, timing=True, look=0.395)
    tops = dumps(world)
    tops[old] = dumps(early)[old]
    assert [entry["collective_seq_id"] for entry in tops[old]["entries"]] == [40]
    assert culprits(judge(tops)) in ([], [2])


def test_of_two_ranks_one_that_moved_and_one_that_stands_the_job_is_not_said_to_move() -> None:
    """Nothing tells which dump was taken later: the one in motion may be of before the stop."""
    world = one_group(2, rounds=200, breaks={0: 60, 1: 60})
    tops = dumps(world)
    tops[0] = dumps(one_group(2, rounds=200, look=0.6))[0]
    assert judge(tops).verdict.class_ is not FaultClass.HEALTHY


def test_a_send_that_may_have_ended_is_not_called_missing_for_sure() -> None:
    """The first stage has sent and waits for nothing; the path to the second is lost."""
    group = (Group("0", (0, 1), "pp"),)
    world = World(
        group, {0: [send("0", 1)] * 40, 1: [recv("0", 0)] * 40}, breaks={1: 30}, only_active=True, ahead=1, look=60.0
    )
    tops = dumps(world)
    tops[0] = {**tops[0], "entries": []}
    found = judge(tops)
    assert culprits(found) == []
    assert not any("issued no send" in finding.statement for finding in found.verdict.findings)
