"""The first divergence is the lowest number that the root lacks and a peer entered, whoever still waits there."""

from __future__ import annotations

from typing import Any

from build_evidence import log
from build_flight import Call, Group, World, culprits, dumps, judge, one_group, parallel, suspects, without

from rankmuster.diagnose.run import Diagnosis
from rankmuster.evidence.blob import Blob
from rankmuster.model.fault import Confidence, Subkind

BROADCAST = [*[Call("0")] * 20, Call("0", "broadcast"), *[Call("0")] * 10]
"""#21 is a broadcast: its root, and whoever it reached, leave it without the rank that does not come."""


def who_waits(found: Diagnosis) -> str:
    return " ".join(one.statement for one in found.verdict.findings if one.detector == "who-waits-for-whom")


def left(tops: dict[int, dict[str, Any]], seq: int, *ranks: int) -> dict[int, dict[str, Any]]:
    """The dumps, in which `ranks` have finished `seq`."""
    for rank in ranks:
        for entry in tops[rank]["entries"]:
            if entry["collective_seq_id"] == seq:
                done = entry["time_created_ns"] + 10**7
                entry |= {"state": "completed", "retired": True, "time_discovered_completed_ns": done}
    return tops


def said_by_watchdog(rank: int, seq: int) -> Blob:
    """The line of a rank that was told to dump; it speaks of the default group alone."""
    return log(
        f"rank{rank}.log",
        f"[rank{rank}]:[E1129 22:24:13.728305388 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank {rank}]"
        " Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump the debug "
        f"info. Last enqueued NCCL work: {seq}, last completed NCCL work: {seq}.",
    )


def test_peers_that_have_left_the_broadcast_do_not_hide_that_it_was_the_first_one_missed() -> None:
    found = judge(left(dumps(one_group(4, calls=BROADCAST, stops={2: 20})), 21, 0, 1))
    first = found.verdict.first_divergence
    assert first is not None
    assert (first.sequence, first.op, first.missing, first.entered) == (21, "broadcast", (2,), (0, 1, 3))
    assert "ranks 0, 1, 3 entered; ranks 0, 1 left it, rank 3 waits; rank 2 did not enter" in who_waits(found)


def test_it_was_the_first_one_missed_though_nobody_waits_there_any_more() -> None:
    found = judge(left(dumps(one_group(4, calls=BROADCAST, stops={2: 20})), 21, 0, 1, 3))
    first = found.verdict.first_divergence
    assert first is not None
    assert (first.sequence, first.op, first.missing) == (21, "broadcast", (2,))
    assert "ranks 0, 1, 3 entered and left it; rank 2 did not enter" in who_waits(found)


def test_of_a_rank_without_dump_nobody_is_said_to_wait_where_he_has_left() -> None:
    world = one_group(4, calls=BROADCAST, stops={2: 20}, absent=frozenset({2}))
    found = judge(left(dumps(world), 21, 0))
    first = found.verdict.first_divergence
    assert suspects(found) == [2]
    assert first is not None
    assert (first.sequence, first.entered) == (21, (0, 1, 3))
    assert "rank 0 left it, ranks 1, 3 wait; rank 2 left neither dump nor log line" in who_waits(found)


def test_a_rank_that_never_entered_a_group_has_no_last_number_there() -> None:
    groups = (Group("0", (0, 1), "default_pg"), Group("1", (0, 1), "late"))
    program = [*[Call("0")] * 3, Call("1"), Call("1")]
    found = judge(World(groups, {0: program, 1: program}, stops={1: 3}))
    assert culprits(found) == [1]
    assert "#-1" not in who_waits(found)
    assert "rank 1 did not enter, entered nothing of this group before" in who_waits(found)


def test_a_log_that_speaks_of_one_group_does_not_convict_in_another() -> None:
    """Rank 1 left no dump; its watchdog names the default group, and its peer waits for it in theirs."""
    world = parallel(2, 1, 2, stops={3: 11}, absent=frozenset({1}))
    found = judge(dumps(world), said_by_watchdog(1, 1))
    assert culprits(found) == [3]
    assert "#-1" not in who_waits(found)


def test_a_rank_known_from_its_log_alone_is_a_lead_where_another_may_hold_it() -> None:
    """Ranks 1 and 3 left no dump: which of them waits for the other in a group of their own, nobody can say."""
    world = parallel(2, 1, 2, stops={3: 11}, absent=frozenset({1, 3}))
    found = judge(dumps(world), said_by_watchdog(1, 1), said_by_watchdog(3, 1))
    assert culprits(found) == []
    assert "#-1" not in who_waits(found)


def test_logs_alone_convict_the_rank_whose_numbers_ended_first() -> None:
    lines = [
        log(
            f"rank{rank}.log",
            f"[rank{rank}]:[E1129 22:24:07.705344624 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank "
            f"{rank}]  failure detected by watchdog at work sequence id: 21 PG status: last enqueued work: 25, "
            "last completed work: 20",
        )
        for rank in (0, 1, 3)
    ]
    found = judge({}, *lines, said_by_watchdog(2, 20))
    assert culprits(found) == [2]
    assert "#21" in who_waits(found)


def test_a_missing_message_is_called_by_its_name() -> None:
    world = parallel(2, 2, 1, stops={2: 0}, timing=True)
    found = judge(world)
    why = next(s.why for s in found.verdict.suspects if s.rank == 2)
    assert culprits(found) == [2]
    assert why.startswith(("issued no receive for the send of rank 0 in", "did not enter TENSOR"))


def test_a_circle_begins_where_the_others_stand_without_the_odd_one() -> None:
    """Rank 2 skips the all-reduce of all four and waits for 3, which waits for it there."""
    groups = (Group("0", (0, 1, 2, 3), "default_pg"), Group("1", (0, 1)), Group("2", (2, 3)))
    programs = {rank: [Call("0"), Call("1" if rank < 2 else "2", ins=((16,),))] * 8 for rank in range(4)}
    found = judge(without(World(groups, programs, ahead=1), 2, 8))
    first = found.verdict.first_divergence
    assert found.verdict.subclass is Subkind.ORDER_CYCLE
    assert culprits(found) == [2]
    assert first is not None
    assert (first.group, first.sequence, first.missing, first.entered) == ("default_pg", 5, (2,), (0, 1, 3))
    assert "rank 2 went another way than the others" in found.verdict.summary


def test_where_calls_differ_nobody_is_said_to_have_entered_alike() -> None:
    calls = [Call("0")] * 30
    world = one_group(4, calls=calls, breaks=dict.fromkeys(range(4), 20))
    other = [*calls[:20], Call("0", "_all_gather_base"), *calls[21:]]
    found = judge(World(world.groups, {**world.programs, 1: other}, breaks=world.breaks))
    assert found.verdict.subclass is Subkind.OP_MISMATCH
    assert "entered alike" not in who_waits(found)


def test_without_timing_a_path_is_a_lead_and_says_what_would_tell() -> None:
    stuck = dict.fromkeys(range(4), 20)
    timed = judge(one_group(4, 30, breaks=stuck, timing=True)).verdict
    assert (timed.subclass, timed.confidence) == (Subkind.ALL_ENTERED_NONE_LEFT, Confidence.LIKELY)
    blind = judge(one_group(4, 30, breaks=stuck)).verdict
    assert (blind.subclass, blind.confidence) == (Subkind.ALL_ENTERED_NONE_LEFT, Confidence.POSSIBLE)
    assert any("TORCH_NCCL_ENABLE_TIMING=1" in wish for wish in blind.would_decide)


def test_a_wrong_size_is_not_called_an_order() -> None:
    calls = [Call("0")] * 60
    other = [*calls[:50], Call("0", "all_reduce", ((8, 4096),)), *calls[51:]]
    groups = (Group("0", (0, 1), "default_pg"),)
    found = judge(World(groups, {0: calls, 1: other}, breaks={0: 50, 1: 50}))
    said = " ".join(one.statement for one in found.verdict.findings)
    assert culprits(found) == [1]
    assert "Rank 1 passed another size than it always had" in said
