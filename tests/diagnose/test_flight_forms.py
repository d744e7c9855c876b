"""One fault in every form that dumps come in: names, tables, versions, windows; the same rank is named."""

from __future__ import annotations

from dataclasses import replace

import pytest
from build_flight import Call, Group, World, batch, culprits, dumps, judge, one_group, parallel, recv, send

from rankmuster.model.fault import Subkind


def test_names_that_differ_between_ranks() -> None:
    group = Group("0", (0, 1, 2, 3), "default_pg", names={rank: f"{rank:040x}" for rank in range(4)})
    assert culprits(judge(World((group,), {rank: [Call("0")] * 30 for rank in range(4)}, stops={2: 10}))) == [2]


def test_hashed_names_without_descriptions() -> None:
    groups = tuple(Group(f"{index:040x}", members) for index, members in enumerate(((0, 1, 2, 3), (0, 1), (2, 3))))
    programs = {rank: [Call(groups[0].key), Call(groups[1 if rank < 2 else 2].key)] * 8 for rank in range(4)}
    assert culprits(judge(World(groups, programs, stops={2: 5}))) == [2]


def test_several_groups_of_the_same_members() -> None:
    groups = tuple(Group(str(index), (0, 1, 2, 3), desc) for index, desc in enumerate(("default_pg", "A", "B")))
    programs = {rank: [Call("0"), Call("1"), Call("2"), Call("1")] * 8 for rank in range(4)}
    found = judge(World(groups, programs, stops={3: 14}))
    assert culprits(found) == [3]
    assert found.verdict.first_divergence is not None
    assert found.verdict.first_divergence.group == "B"


def test_tables_that_lack_the_group() -> None:
    tops = dumps(one_group(4, stops={1: 20}))
    for rank in (2, 3):
        tops[rank]["pg_config"] = {}
    assert culprits(judge(tops)) == [1]


def test_no_table_at_all() -> None:
    tops = dumps(parallel(2, 1, 2, stops={1: 20}))
    for top in tops.values():
        top["pg_config"] = {}
    assert culprits(judge(tops)) == [1]


@pytest.mark.parametrize("status", [False, True])
@pytest.mark.parametrize("fault", ["stops", "breaks"])
def test_active_operations_alone(fault: str, status: bool) -> None:
    world = replace(parallel(2, 2, 4, only_active=True, status=status), **{fault: {12: 20}})  # type: ignore[arg-type]
    found = culprits(judge(world))
    assert found == [12] if status else set(found) <= {12}


def test_active_operations_alone_leave_the_children_of_batches_behind() -> None:
    groups = (Group("0", (0, 1), "default_pg"), Group("1", (0, 1), "pp"))
    program = {rank: [batch("1", send("1", 1 - rank), recv("1", 1 - rank)), Call("0")] * 12 for rank in range(2)}
    world = World(groups, program, only_active=True, stops={1: 11})
    assert culprits(judge(world)) == [1]


def test_schema_2_1_without_counters_and_time_outs() -> None:
    world = parallel(8, 2, 4, stops={12: 20}, version="2.1", status=False, timeout=False)
    assert culprits(judge(world)) == [12]


def test_windows_of_different_length() -> None:
    tops = dumps(parallel(2, 2, 4, steps=12, stops={6: 100}))
    for rank, top in tops.items():
        top["entries"] = top["entries"][-(30 + 5 * rank) :]
    assert culprits(judge(tops)) == [6]


def test_dumps_without_a_single_time() -> None:
    tops = dumps(one_group(4, stops={1: 20}))
    for top in tops.values():
        for entry in top["entries"]:
            entry.update(time_created_ns=0, time_discovered_completed_ns=None)
    found = judge(tops)
    assert culprits(found) == [1]
    assert found.verdict.subclass is Subkind.MISSING_ENTER


def test_versions_that_differ_and_one_nobody_knows() -> None:
    tops = dumps(one_group(4, stops={1: 20}))
    tops[0]["version"], tops[2]["version"] = "2.1", "2.57"
    found = judge(tops)
    assert culprits(found) == [1]
    assert any("2.57" in problem for problem in found.verdict.problems)


def test_an_unknown_operation_of_an_unknown_backend_is_compared_like_any_other() -> None:
    world = one_group(4, calls=[Call("0", "all_reduce_sparse")] * 30, backend="newccl", stops={1: 20})
    assert culprits(judge(world)) == [1]
