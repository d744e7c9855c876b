"""What the report says of played worlds: who is where, where members part, and what nobody can know."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import build_flight as fr
import pytest

from rankmuster.diagnose.flight_report.aligned import aligned
from rankmuster.diagnose.flight_report.build import flight_report
from rankmuster.diagnose.run import examine
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather
from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.flight_report import Aligned, FlightReport, GapKind, GroupReport, GroupState, Known, Shift, Step


def told(source: fr.World | Mapping[int, Any], *more: Blob, stacks: bool = False, examples: int = 0) -> FlightReport:
    tops = fr.dumps(source) if isinstance(source, fr.World) else source
    return flight_report(examine(gather([*fr.blobs(tops), *more])), stacks=stacks, examples=examples)


def only(report: FlightReport) -> GroupReport:
    assert len(report.groups) == 1
    return report.groups[0]


def place_of(group: GroupReport, rank: int) -> Any:
    return next(place for place in group.places if rank in place.ranks)


VARIED = [fr.Call("0"), fr.Call("0", "all_gather", ((8,),), ((32,),)), fr.Call("0", "broadcast", ((8,),))] * 20


def test_a_rank_that_does_not_come_is_first_of_the_roll() -> None:
    group = only(told(fr.one_group(4, stops={2: 30})))
    assert (group.state, group.accused) == (GroupState.NOT_COME, True)
    assert [place.ranks for place in group.places] == [(2,), (0, 1, 3)]
    assert (group.places[0].entered, group.places[0].finished, group.places[0].stands) == (30, 30, None)
    assert group.places[1].stands is not None
    assert group.places[1].stands.sequence == 31
    assert group.divergence is not None
    assert (group.divergence.sequence, group.divergence.missing) == (31, (2,))


def test_a_healthy_jobs_report_accuses_nobody() -> None:
    for world in (fr.one_group(4, rounds=400, look=2.0), fr.parallel(2, 2, 2, steps=12, look=1.5)):
        examined = examine(gather(fr.blobs(fr.dumps(world))))
        assert examined.diagnosis.verdict.class_ is FaultClass.HEALTHY
        report = flight_report(examined)
        assert {group.state for group in report.groups} <= {GroupState.TAIL, GroupState.LEVEL}
        assert not any(place.suspected for group in report.groups for place in group.places)
        assert not any(group.difference or group.accused for group in report.groups)


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (fr.Call("0", "all_gather"), Subkind.OP_MISMATCH),
        (fr.Call("0", ins=((9,),)), Subkind.SIZE_MISMATCH),
        (fr.Call("0", dtype="Half"), Subkind.DTYPE_MISMATCH),
    ],
)
def test_the_odd_rank_is_named_and_never_the_majority(call: fr.Call, kind: Subkind) -> None:
    difference = only(told(fr.instead(fr.one_group(4), 1, 30, call))).difference
    assert difference is not None
    assert (difference.sequence, difference.kind, difference.odd) == (31, kind, (1,))
    assert [camp.ranks for camp in difference.camps] == [(0, 2, 3), (1,)]


def test_of_two_ranks_that_differ_neither_is_odd() -> None:
    world = fr.one_group(2, rounds=10)
    difference = only(told(fr.instead(world, 1, 5, fr.Call("0", ins=((9,),))))).difference
    assert difference is not None
    assert difference.odd == ()


@pytest.mark.parametrize(
    ("change", "shift"),
    [
        (lambda program: [*program[:30], *program[31:]], Shift.LEFT_OUT),
        (lambda program: [*program[:30], fr.Call("0", "reduce"), *program[30:]], Shift.ONE_MORE),
        (lambda program: [*program[:30], program[31], program[30], *program[32:]], Shift.OTHER_ORDER),
    ],
)
def test_how_the_odd_ranks_calls_lie_to_the_others(change: Any, shift: Shift) -> None:
    world = fr.one_group(4, calls=VARIED)
    changed = replace(world, programs={**world.programs, 2: change(list(world.programs[2]))})
    difference = only(told(changed)).difference
    assert difference is not None
    assert (difference.odd, difference.shift) == ((2,), shift)


def test_later_differences_are_counted_and_told_on_demand() -> None:
    world = fr.without(fr.one_group(4, calls=VARIED), 2, 31)
    assert only(told(world)).difference.later > 5  # type: ignore[union-attr]
    difference = only(told(world, examples=3)).difference
    assert difference is not None
    assert [number for number, _ in difference.examples] == sorted(number for number, _ in difference.examples)
    assert len(difference.examples) == 3
    assert difference.examples[0][0] > difference.sequence


def test_what_rings_overwrote_is_unknown_and_not_missing() -> None:
    tops = fr.dumps(fr.one_group(4, rounds=300, ring=100, stops={2: 250}))
    tops[1]["entries"] = tops[1]["entries"][40:]
    group = only(told(tops))
    window = group.window
    assert window is not None
    assert window.common is not None
    assert window.common[0] > window.first > 1
    assert ((1,), window.common[0]) in window.overwritten
    assert group.divergence is not None
    assert group.divergence.missing == (2,)
    lost = told(tops).dumps.overwritten
    assert lost is not None
    assert lost.ranks == (0, 1, 2, 3)


def test_windows_without_a_common_number_are_said() -> None:
    tops = fr.dumps(fr.one_group(3, rounds=100, look=0.9))
    tops[0]["entries"], tops[1]["entries"] = tops[0]["entries"][:20], tops[1]["entries"][40:]
    window = only(told(tops)).window
    assert window is not None
    assert window.common is None


def test_a_gap_common_to_all_is_a_capture_and_one_of_some_is_told_apart() -> None:
    tops = fr.dumps(fr.one_group(4, rounds=60, stops={1: 55}))
    for rank, top in tops.items():
        top["entries"] = [
            entry
            for entry in top["entries"]
            if not 20 <= entry["collective_seq_id"] < 23 and not (rank == 3 and entry["collective_seq_id"] == 40)
        ]
    gaps = {(gap.first, gap.last): gap for gap in only(told(tops)).gaps}
    assert gaps[20, 22].kind is GapKind.COMMON
    assert (gaps[40, 40].kind, gaps[40, 40].ranks) == (GapKind.PARTIAL, (3,))


def test_numbers_that_a_ring_no_longer_holds_are_no_gap() -> None:
    assert only(told(fr.one_group(4, rounds=300, ring=100, stops={2: 250}))).gaps == ()


def test_coalesced_parts_are_counted_and_are_no_waits() -> None:
    parts = tuple(fr.Call("0", "all_gather", ((8,),)) for _ in range(3))
    program = [fr.Call("0", "ALLGATHER_coalesced", (), parts=parts)] * 20
    report = told(fr.one_group(4, calls=program, look=60.0))
    assert (report.dumps.coalesced, report.dumps.children) == (80, 240)
    assert only(report).state in (GroupState.LEVEL, GroupState.TAIL)


def test_a_missing_dump_is_unplaced_and_not_missing() -> None:
    report = told(fr.one_group(4, absent=frozenset({3}), stops={3: 30}))
    group = only(report)
    assert place_of(group, 3).known is Known.NO_DUMP
    assert report.dumps.missing == (3,)
    assert group.state is GroupState.UNPLACED
    assert group.divergence is None


def test_a_dump_of_another_run_is_told_apart() -> None:
    tops = fr.dumps(fr.one_group(4, stops={2: 30}))
    for entry in tops[0]["entries"]:
        entry["time_created_ns"] -= 7_200_000_000_000
        if entry["time_discovered_completed_ns"]:
            entry["time_discovered_completed_ns"] -= 7_200_000_000_000
    report = told(tops)
    assert [rank for rank, _ in report.dumps.other_run] == [0]
    assert report.dumps.other_run[0][1] == pytest.approx(-7200, abs=5)
    assert place_of(only(report), 0).known is Known.OTHER_RUN


def test_nobody_says_that_a_rank_left_no_dump_whose_dump_is_of_another_time() -> None:
    """A host whose clock is off leaves one that looks like an earlier run's."""
    tops = fr.dumps(fr.one_group(8, stalls={3: 30}))
    for entry in tops[0]["entries"]:
        entry["time_created_ns"] += 200_000_000_000
        if entry["time_discovered_completed_ns"]:
            entry["time_discovered_completed_ns"] += 200_000_000_000
    found = fr.judge(tops)
    statements = " ".join(finding.statement for finding in found.verdict.findings)
    assert "clock is off" in statements
    assert "neither dump" not in statements


def test_one_damaged_dump_costs_its_window_and_a_line() -> None:
    tops = fr.dumps(fr.one_group(8, stops={2: 30}))
    blobs = fr.blobs(tops)
    half = len(blobs[5].data) // 2
    blobs[5] = Blob(blobs[5].path, blobs[5].data[:half])
    blobs[6] = Blob(blobs[6].path, b"\x80\x02cposix\nsystem\n.")
    examined = examine(gather(blobs))
    assert fr.culprits(examined.diagnosis) == [2]
    report = flight_report(examined)
    assert report.dumps.cut == (5,)
    assert len(report.dumps.damaged) == 2
    assert {line.split(":")[0][-1] for line in report.dumps.damaged} == {"5", "6"}
    group = only(report)
    assert place_of(group, 6).known is Known.DAMAGED
    assert group.divergence is not None
    assert group.divergence.missing == (2,)
    assert 5 in group.divergence.unknown


def test_an_empty_dump_says_nothing_of_its_rank() -> None:
    tops = fr.dumps(fr.one_group(4, stops={2: 30}))
    tops[1] = {"version": "2.10", "pg_config": {}, "entries": []}
    report = told(tops)
    assert report.dumps.empty == (1,)
    assert place_of(only(report), 1).known is Known.EMPTY


def test_messages_are_matched_by_source_destination_and_order() -> None:
    report = told(fr.parallel(2, 2, 1, steps=4, look=60.0))
    pipes = [group for group in report.groups if group.messages is not None]
    assert pipes
    for group in pipes:
        assert group.messages is not None
        assert (group.messages.clashing, group.messages.unmatched_total, group.messages.unknown) == (0, 0, 0)
        assert group.messages.matched > 0


def two(programs: dict[int, list[fr.Call]], **fields: Any) -> fr.World:
    return fr.World((fr.Group("0", (0, 1), "default_pg"),), programs, **fields)


def test_a_send_without_its_receive_and_sizes_that_disagree() -> None:
    both = [fr.send("0", 1)] * 10
    other = [fr.recv("0", 0)] * 9
    messages = only(told(two({0: both, 1: other}))).messages
    assert messages is not None
    assert [(lone.side, lone.count, lone.stands) for lone in messages.unmatched] == [("send", 1, True)]
    assert messages.matched == 9
    other = [*[fr.recv("0", 0)] * 9, fr.recv("0", 0, 8)]
    messages = only(told(two({0: both, 1: other}))).messages
    assert messages is not None
    assert [(clash.number, clash.sent, clash.expected) for clash in messages.clashes] == [(10, 4096, 8)]


def test_messages_in_wrapped_rings_are_matched_by_torchs_number_in_a_group_of_two() -> None:
    sends, receives = [fr.send("0", 1)] * 300, [*[fr.recv("0", 0)] * 299, fr.recv("0", 0, 8)]
    tops = fr.dumps(two({0: sends, 1: receives}, ring=100))
    tops[1]["entries"] = tops[1]["entries"][30:]
    messages = only(told(tops)).messages
    assert messages is not None
    assert (messages.unknown, messages.clashing) == (0, 1)
    assert messages.matched > 50


def test_messages_of_three_in_wrapped_rings_are_unknown_and_not_unmatched() -> None:
    group = fr.Group("0", (0, 1, 2), "default_pg")
    programs = {
        0: [fr.send("0", 1)] * 200,
        1: [fr.recv("0", 0), fr.send("0", 2)] * 200,
        2: [fr.recv("0", 1)] * 200,
    }
    messages = only(told(fr.World((group,), programs, ring=50))).messages
    assert messages is not None
    assert (messages.unknown, messages.unmatched_total, messages.clashing) == (2, 0, 0)


def test_a_peer_without_a_dump_makes_no_message_unmatched() -> None:
    messages = only(told(two({0: [fr.send("0", 1)] * 10, 1: [fr.recv("0", 0)] * 9}, absent=frozenset({1})))).messages
    assert messages is not None
    assert (messages.one_sided, messages.unmatched_total) == (1, 0)


def uneven(parts: dict[int, list[int]], takes: dict[int, list[int]]) -> dict[int, fr.Call]:
    return {
        rank: fr.Call("0", "all_to_all", tuple((size,) for size in parts[rank]), tuple((size,) for size in takes[rank]))
        for rank in parts
    }


def test_uneven_exchanges_are_legal_and_compared_peer_by_peer() -> None:
    gives = {0: [1, 2, 3], 1: [4, 5, 6], 2: [7, 8, 9]}
    takes = {0: [1, 4, 7], 1: [2, 5, 8], 2: [3, 6, 9]}
    group = fr.Group("0", (0, 1, 2), "default_pg")
    calls = uneven(gives, takes)
    legal = only(told(fr.World((group,), {rank: [calls[rank]] * 12 for rank in calls})))
    assert legal.difference is None
    assert legal.exchanges is not None
    assert (legal.exchanges.compared, legal.exchanges.clashing) == (12, 0)
    wrong = uneven(gives, {**takes, 1: [2, 5, 80]})
    illegal = only(told(fr.World((group,), {rank: [*[calls[rank]] * 6, wrong[rank]] for rank in calls})))
    assert illegal.exchanges is not None
    clash = illegal.exchanges.clashes[0]
    assert (clash.sequence, clash.giver, clash.taker, clash.passed, clash.expected) == (7, 2, 1, 8, 80)


def test_groups_with_the_same_members_know_of_each_other() -> None:
    groups = (fr.Group("0", (0, 1), "default_pg"), fr.Group("1", (0, 1), "cpu"))
    program = [fr.Call("0"), fr.Call("1")] * 10
    report = told(fr.World(groups, {0: program, 1: program}))
    assert sorted(group.same_members for group in report.groups) == [(0,), (1,)]


def test_a_group_that_only_waits_for_others_is_held_and_comes_later() -> None:
    report = told(fr.parallel(2, 1, 4, steps=6, stops={3: 20}))
    assert report.groups[0].state is GroupState.NOT_COME
    assert report.groups[0].accused
    states = [group.state for group in report.groups]
    assert states == sorted(states, key=list(GroupState).index)
    for group in report.groups:
        if group.state is GroupState.NOT_COME:
            assert group.divergence is not None
            assert 3 in group.divergence.missing


def with_stacks(tops: dict[int, Any], of: Mapping[int, str]) -> dict[int, Any]:
    torch = {"name": "all_reduce", "filename": "/usr/lib/python3/site-packages/torch/distributed/c10d.py", "line": 9}
    for rank, top in tops.items():
        own = {"name": of[rank], "filename": "/srv/app/model.py", "line": 7}
        for entry in top["entries"]:
            entry["frames"] = [torch, own]
    return tops


def test_the_culprits_last_call_stands_beside_its_victims_and_equal_stacks_are_one() -> None:
    tops = with_stacks(fr.dumps(fr.one_group(4, stops={2: 30})), {0: "layer", 1: "layer", 2: "other", 3: "layer"})
    stacks = told(tops, stacks=True).stacks
    assert stacks is not None
    assert [(stack.ranks, stack.sequence, stack.state) for stack in stacks.accused] == [((2,), 30, "completed")]
    assert stacks.accused[0].frames == ("other /srv/app/model.py:7",)
    assert [(stack.ranks, stack.sequence, stack.folded) for stack in stacks.waiting] == [((0, 1, 3), 31, 1)]


def test_dumps_without_stacks_say_so() -> None:
    stacks = told(fr.one_group(4, stops={2: 30}), stacks=True).stacks
    assert stacks is not None
    assert stacks.without == (0, 1, 2, 3)


def test_only_active_dumps_invent_no_gap_and_no_missing_message() -> None:
    report = told(replace(fr.parallel(2, 2, 1, steps=4), only_active=True, stops={0: 30}))
    assert all(not group.gaps for group in report.groups)
    assert all(group.messages is None or not group.messages.unmatched for group in report.groups)


def test_what_a_dump_of_an_unknown_kind_holds_does_not_stop_the_report() -> None:
    top = {"version": "9.9", "entries": [{"record_id": 0, "profiling_name": "x:y", "process_group": ["a"], "state": 7}]}
    report = flight_report(examine(gather([Blob("flight/d_rank_0", pickle.dumps(top, protocol=2))])), stacks=True)
    assert report.dumps.entries == 1


def side_by_side(world: fr.World | Mapping[int, Any], most: int | None = 6, ranks: Any = None) -> Aligned:
    tops = fr.dumps(world) if isinstance(world, fr.World) else world
    examined = examine(gather(fr.blobs(tops)))
    found = aligned(examined.context, only(flight_report(examined)), ranks, most)
    assert found is not None
    return found


def test_side_by_side_members_alike_are_one_column_and_the_odd_one_comes_first() -> None:
    found = side_by_side(fr.one_group(64, stops={2: 30}))
    assert [len(column) for column in found.columns] == [1, 63]
    last = found.rows[-1]
    assert (last.sequence, [step for step, _ in last.cells]) == (38, [Step.NOT_ENTERED, Step.ENQUEUED])


def test_side_by_side_shows_the_difference_and_the_odd_call() -> None:
    found = side_by_side(fr.instead(fr.one_group(4, rounds=400), 1, 30, fr.Call("0", ins=((9,),))), 5)
    assert [row.sequence for row in found.rows] == [29, 30, 31, 32, 33]
    assert [other for _, other in found.rows[2].cells] == ["all_reduce of [9] Float", None]


def test_side_by_side_what_a_ring_lost_is_unknown_and_what_has_no_record_is_said() -> None:
    tops = fr.dumps(fr.one_group(2, rounds=20, look=60.0))
    tops[0]["entries"] = [entry for entry in tops[0]["entries"][10:] if entry["collective_seq_id"] != 15]
    found = side_by_side(tops, None)
    steps = {row.sequence: row.cells[0][0] for row in found.rows}
    assert (steps[5], steps[15], steps[16]) == (Step.UNKNOWN, Step.NOT_RECORDED, Step.FINISHED)


def test_side_by_side_of_chosen_ranks() -> None:
    assert side_by_side(fr.one_group(8, stops={2: 30}), ranks={2, 5}).columns == ((2,), (5,))


def test_messages_that_a_rank_enqueued_ahead_are_no_fault_of_the_other_end() -> None:
    programs = {0: [fr.Call("0"), *[fr.send("0", 1)] * 5], 1: [fr.Call("0"), *[fr.recv("0", 0)] * 5]}
    messages = only(told(two(programs, stops={0: 3}, ahead={0: 8, 1: 8}, stalls={1: 1}))).messages
    assert messages is not None
    assert [(lone.side, lone.count, lone.stands) for lone in messages.unmatched] == [("receive", 3, False)]


def test_members_that_no_table_tells_are_said_to_be_inferred() -> None:
    assert only(told(fr.one_group(4, backend="gloo", look=60.0))).inferred
    assert not only(told(fr.one_group(4))).inferred
