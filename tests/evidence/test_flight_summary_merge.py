"""Summaries of many nodes as one set: what is there twice counts once, what does not fit together is told."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest
from summary_sample import summarised

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import Evidence, gather
from rankmuster.evidence.flight_summary_merge import Merging, MixedRuns
from rankmuster.evidence.flight_summary_node import OF_A_NODE
from rankmuster.evidence.take import Taken, take
from rankmuster.model.flight import FlightDump
from rankmuster.model.flight_summary import FlightSummary
from rankmuster.model.problem import Problem, ProblemKind

MINUTE = 60_000_000_000
NOW = 1_795_980_000_000_000_000
WORLD = 8


def dump(rank: int, at: int = NOW, calls: int = 5, world: int = WORLD, backend: str = "nccl") -> Blob:
    def entry(number: int) -> dict[str, Any]:
        return {
            "record_id": number,
            "collective_seq_id": number + 1,
            "pg_id": 0,
            "process_group": ("0", "default_pg"),
            "profiling_name": f"{backend}:all_reduce",
            "time_created_ns": at + number * 1_000_000 + rank,
            "state": "completed",
            "retired": True,
            "is_p2p": False,
        }

    config = {"0": {"name": "0", "desc": "default_pg", "ranks": str(list(range(world)))}}
    top = {"version": "2.10", "pg_config": config, "entries": [entry(number) for number in range(calls)]}
    return Blob(f"nccl_trace_rank_{rank}", pickle.dumps(top, protocol=2))


def node(name: str, ranks: Iterable[int], at: int = NOW, **fields: Any) -> Blob:
    found = gather([dump(rank, at, **fields) for rank in ranks], OF_A_NODE)
    return Blob(f"{name}.rfs", summarised(found, node=name))


def merged(*blobs: Blob) -> Evidence:
    merging = Merging(MINUTE)
    takens = [merging.take(take(blob)) for blob in blobs]
    return merging.settle(_evidence(takens))


def _evidence(takens: Iterable[Taken]) -> Evidence:
    by_type: dict[type, list[object]] = {}
    problems: list[Problem] = []
    for taken in takens:
        problems += taken.problems
        for value in taken.observations:
            by_type.setdefault(type(value), []).append(value)
    return Evidence({kind: tuple(values) for kind, values in by_type.items()}, tuple(problems))


def ranks(evidence: Evidence) -> list[int | None]:
    return [found.rank for found in evidence.of(FlightDump) if len(found.columns)]


def told(evidence: Evidence) -> list[str]:
    return [f"{problem.kind.value}: {problem.source}: {problem.message}" for problem in evidence.problems]


def test_nodes_that_fit_together() -> None:
    found = merged(node("b", range(4, 8)), node("a", range(4)))
    assert ranks(found) == list(range(8))
    assert told(found) == []
    one, two = (found.of(FlightDump)[place].columns.groups[0].members for place in (0, 7))
    assert one is two  # every node has the members of the whole job: they are held once


def test_the_same_summary_twice_counts_once() -> None:
    first = node("a", range(8))
    found = merged(first, replace(first, path="copy.rfs"))
    assert ranks(found) == list(range(8))
    assert told(found) == ["refused: copy.rfs: the same summary as a.rfs; it was used once"]
    assert len(found.of(FlightSummary)) == 1


def test_a_shared_folder_that_every_node_summarised_counts_once() -> None:
    found = merged(node("a", range(8)), node("b", range(8)), node("c", range(8)))
    assert ranks(found) == list(range(8))
    assert [line.split(": ")[1] for line in told(found)] == ["b.rfs", "c.rfs"]
    assert "its dumps of ranks 0-7 are those that a.rfs holds too" in told(found)[0]


def test_a_rank_that_two_nodes_claim_is_not_believed_of_either() -> None:
    found = merged(node("a", range(5)), node("b", range(4, 8), at=NOW + 1000))
    assert ranks(found) == [0, 1, 2, 3, 5, 6, 7]
    # its rank wrote dumps all the same: it is not one that left none
    assert [dump.cut for dump in found.of(FlightDump) if dump.rank == 4] == [True, True]
    assert told(found) == ["corrupt: .: a, b both claim rank 4 at the same time; neither was believed"]


def test_most_ranks_claimed_twice_are_two_instances() -> None:
    with pytest.raises(MixedRuns, match=r"a, b: ranks 0-7.*local rank"):
        merged(node("a", range(8)), node("b", range(8), at=NOW + 1000))


@pytest.mark.parametrize("later", ["a", "b"])
def test_two_looks_at_one_rank_are_no_dispute(later: str) -> None:
    """Records of one number are of one time, whatever the summaries call the node."""
    again = node(later, range(8), calls=9)
    found = merged(node("a", range(8)), replace(again, path="later.rfs"))
    assert len(ranks(found)) == 16
    assert told(found) == []


def test_nodes_of_one_name_that_claim_the_same_ranks_are_not_two_looks() -> None:
    """Containers are often called alike; ranks by local number are then claimed by each of them."""
    again = node("localhost", range(8), at=NOW + 1000, calls=9)
    with pytest.raises(MixedRuns, match="claimed by two nodes"):
        merged(node("localhost", range(8)), replace(again, path="other.rfs"))


def test_two_recorders_of_one_rank_are_no_dispute() -> None:
    host = node("a", range(8), at=NOW + 1000, backend="gloo")
    found = merged(node("a", range(8)), replace(host, path="gloo.rfs"))
    assert len(ranks(found)) == 16
    assert told(found) == []


def test_a_summary_of_another_run_is_told() -> None:
    found = merged(node("a", range(6)), node("b", [6, 7], at=NOW - 3600 * 10**9))
    assert ranks(found) == list(range(8))  # what is stale, diagnose says
    (line,) = told(found)
    assert line.startswith("corrupt: b.rfs: of 2026-11-29 18:20:00Z to 2026-11-29 18:20:00Z, while most summaries are")
    assert "another run" in line


def test_a_rank_of_two_runs_is_no_dispute() -> None:
    """The job was started again elsewhere: the old node's file is of the earlier run."""
    found = merged(node("a", range(8)), node("old", [3], at=NOW - 3600 * 10**9))
    assert ranks(found) == [*range(8), 3]
    assert [line.split(": ")[1] for line in told(found)] == ["old.rfs"]


def test_two_runs_of_equal_weight_are_not_mixed() -> None:
    with pytest.raises(MixedRuns, match=r"2 times that lie apart: b of 2026-.*; a of 2026-"):
        merged(node("a", range(4)), node("b", range(4, 8), at=NOW - 7200 * 10**9))


def test_ranks_that_stood_still_for_minutes_are_of_the_same_run() -> None:
    """Half of a job may have waited for the time-out while the other half went on: it is told, and judged."""
    found = merged(node("a", range(4)), node("b", range(4, 8), at=NOW - 540 * 10**9))
    assert ranks(found) == list(range(8))
    (line,) = told(found)
    assert "nothing more to do long before" in line


def test_ranks_without_a_summary_are_named() -> None:
    found = merged(node("a", range(3)), node("c", [6]))
    assert ranks(found) == [0, 1, 2, 6]
    (line,) = told(found)
    assert "no summary holds a dump of ranks 3-5, 7 (of 8 ranks in all)" in line


def test_a_summary_whose_ranks_nobody_can_read_may_have_held_those_that_lack() -> None:
    lost = node("b", range(4, 8))
    found = merged(node("a", range(4)), replace(lost, data=lost.data[:20]))
    assert ranks(found) == [0, 1, 2, 3]
    bare = [dump for dump in found.of(FlightDump) if dump.cut]
    assert [dump.rank for dump in bare] == [4, 5, 6, 7]
    assert "b.rfs cannot be read and may have held them" in told(found)[-1]


def test_an_empty_file_is_a_node_that_could_not_be_reached() -> None:
    found = merged(node("a", range(4)), Blob("b.rfs", b""), Blob("logs/worker.log", b""))
    assert [dump.rank for dump in found.of(FlightDump) if dump.cut] == [4, 5, 6, 7]
    assert "b.rfs cannot be read" in told(found)[-1]


def test_hosts_of_ranks_without_a_summary_are_named_where_known() -> None:
    facts = {"instance": "llm-0", "world_size": 8, "processes": [{"rank": 7, "pid": 7, "host": "10.0.0.7"}]}
    found = merged(node("a", range(7)), Blob("instance.json", json.dumps(facts).encode()))
    assert "no summary holds a dump of rank 7 (10.0.0.7) (of 8 ranks in all)" in told(found)[0]


def test_a_damaged_summary_that_still_lists_its_ranks_lacks_none() -> None:
    lost = node("b", range(4, 8))
    found = merged(node("a", range(4)), replace(lost, data=lost.data[:-1]))
    assert [dump.rank for dump in found.of(FlightDump)] == list(range(8))
    (problem,) = found.problems
    assert problem.kind is ProblemKind.DAMAGED
    assert "ranks 4-7 on b" in problem.message


def test_plain_dumps_go_with_summaries() -> None:
    plain = dump(7)
    found = merged(node("a", range(7)), replace(plain, path="dumps/nccl_trace_rank_7"))
    assert ranks(found) == list(range(8))
    assert told(found) == []


@pytest.mark.parametrize("plain_first", [True, False])
def test_a_dump_beside_its_summary_counts_once(plain_first: bool) -> None:
    plain, summary = replace(dump(3), path="dumps/nccl_trace_rank_3"), node("a", range(8))
    found = merged(*((plain, summary) if plain_first else (summary, plain)))
    assert sorted(rank for rank in ranks(found) if rank is not None) == list(range(8))
    (kept,) = [one for one in found.of(FlightDump) if one.rank == 3]
    assert kept.source == plain.path  # it has all its stacks
    assert told(found) == ["refused: a.rfs: its dumps of rank 3 are there themselves too; they were used once"]


def test_empty_dumps_claim_nothing() -> None:
    found = merged(node("a", range(8)), node("b", range(8), calls=0))
    assert ranks(found) == list(range(8))
    assert told(found) == []
