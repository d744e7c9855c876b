"""What is put comes back as it was, once, and only sound runs of a class are its baseline."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from history_made import CELLS, CLASS, DAY, KIN, PROFILE, START, hash_of, run
from rankmuster.model.benchmark import Cell, HistoryValue, Operation, RunState
from rankmuster.store.errors import Conflict, Refused
from rankmuster.store.history import History


def test_a_run_comes_back_as_it_was_put(history: History) -> None:
    put = run(3)
    assert history.put(put)
    assert history.runs() == (put,)


@pytest.mark.parametrize("state", list(RunState))
def test_runs_of_every_state_are_kept_with_their_reason(history: History, state: RunState) -> None:
    put = run(state=state)
    history.put(put)
    assert history.runs(state=state) == (put,)
    assert len(history.class_history(CLASS, PROFILE).records) == (state is RunState.COMPLETE)


def test_a_record_is_stored_once_however_often_it_is_brought(history: History) -> None:
    assert history.put(run())
    assert not history.put(run())
    assert history.put_many([run(), run(1), run(1)]) == 1
    assert [one.started_at for one in history.runs()] == [START + DAY, START]


def test_the_class_has_the_complete_runs_oldest_first_in_columns_per_cell(history: History) -> None:
    history.put_many(run(number) for number in (2, 0, 1))
    found = history.class_history(CLASS, PROFILE)
    assert found.total == 3
    assert found.started_at.tolist() == [START, START + DAY, START + 2 * DAY]
    assert found.records == tuple(run(number).record for number in range(3))
    assert found.nodes == (hash_of("node-a"),) * 3
    assert found.choices == (run().choices,) * 3
    assert list(found.cells) == sorted(CELLS)
    for index, cell in enumerate(CELLS):
        column = found.cells[cell]
        assert column.run.tolist() == [0, 1, 2]
        assert column.busbw.tolist() == [100.0, 101.0, 102.0]
        assert column.time_us.tolist() == [10.0, 1000 / 101, 1000 / 102]
        assert column.min_us.tolist() == [9.0] * 3
        assert column.rank_spread_percent is not None
        assert column.rank_spread_percent.tolist() == [index] * 3


def test_what_a_tool_did_not_say_is_not_a_number(history: History) -> None:
    value = HistoryValue(CELLS[0], 1.0, 2.0)
    history.put(replace(run(), values=(value,)))
    column = history.class_history(CLASS, PROFILE).cells[CELLS[0]]
    assert np.isnan(column.min_us).all()
    assert column.rank_spread_percent is not None
    assert np.isnan(column.rank_spread_percent).all()
    assert history.runs()[0].values == (value,)


def test_a_cell_measured_twice_in_one_run_keeps_both_in_their_order(history: History) -> None:
    put = replace(run(), values=(HistoryValue(CELLS[0], 5.0, 50.0), HistoryValue(CELLS[0], 4.0, 60.0)))
    history.put(put)
    column = history.class_history(CLASS, PROFILE).cells[CELLS[0]]
    assert (column.run.tolist(), column.busbw.tolist()) == ([0, 0], [50.0, 60.0])
    assert history.runs() == (put,)


def test_runs_that_did_not_complete_are_counted_and_compared_with_nobody(history: History) -> None:
    history.put_many(run(number, state=state) for number, state in enumerate(RunState))
    found = history.class_history(CLASS, PROFILE)
    assert found.records == (run(0).record,)
    assert found.kept_out == {state.value: 1 for state in RunState if state is not RunState.COMPLETE}


def test_cells_differ_by_operation_size_dtype_place_and_graph(history: History) -> None:
    first = Cell(Operation.ALL_REDUCE, 1024, "half")
    cells = (
        first,
        replace(first, operation=Operation.ALL_GATHER),
        replace(first, size_bytes=2048),
        replace(first, dtype="float"),
        replace(first, in_place=True),
        replace(first, graph=True),
    )
    history.put(run(cells=cells))
    found = history.class_history(CLASS, PROFILE)
    assert set(found.cells) == set(cells)
    assert [float(found.cells[cell].rank_spread_percent[0]) for cell in cells] == [0, 1, 2, 3, 4, 5]  # type: ignore[index]


def test_another_class_or_profile_is_another_history(history: History) -> None:
    other = hash_of("other class")
    history.put_many([run(), run(1, class_hash=other), run(2, profile="tp8-prefill@0")])
    assert history.class_history(CLASS, PROFILE).total == 1
    assert history.class_history(other, PROFILE).total == 1
    nobody = history.class_history(hash_of("nobody"), PROFILE)
    assert (nobody.total, nobody.records, dict(nobody.cells)) == (0, (), {})


def test_the_newest_runs_are_taken_spread_over_the_nodes(history: History) -> None:
    history.put_many(run(number, node="busy") for number in range(20))
    history.put_many(run(number, node=node) for node in ("quiet-1", "quiet-2") for number in (0, 1))
    found = history.class_history(CLASS, PROFILE, limit=7)
    assert found.total == 24
    taken = [(node, at) for node, at in zip(found.nodes, found.started_at, strict=True)]
    assert [node for node, _ in taken].count(hash_of("busy")) == 3
    assert [at for node, at in taken if node == hash_of("busy")] == [START + n * DAY for n in (17, 18, 19)]
    assert history.class_history(CLASS, PROFILE, runs_per_node=1).started_at.size == 3


def test_a_decision_of_an_earlier_day_can_be_looked_at_again(history: History) -> None:
    history.put_many(run(number) for number in range(10))
    found = history.class_history(CLASS, PROFILE, until=START + 4 * DAY)
    assert (found.total, float(found.started_at.max())) == (4, START + 3 * DAY)


def test_kin_are_classes_that_differ_in_settings_alone(history: History) -> None:
    history.put_many(run(number, node=f"node-{number % 3}") for number in range(6))
    other = hash_of("kin's class")
    history.put_many(run(number, class_hash=other, settings=()) for number in range(2))
    history.put(run(0, class_hash=hash_of("failing"), settings=(("A", "1"),), state=RunState.HUNG))
    history.put(run(0, class_hash=hash_of("stranger"), kin_hash=hash_of("other hardware")))
    kin = history.kin_classes(KIN, PROFILE)
    assert [(one.class_hash, one.runs, one.nodes, one.settings) for one in kin] == [
        (CLASS, 6, 3, {"NCCL_PROTO": "Simple"}),
        (other, 2, 1, {}),
    ]
    assert history.kin_classes(KIN, "another@profile") == ()


def test_a_nodes_runs_are_found_by_its_hash_and_its_host(history: History) -> None:
    history.put_many(run(number, node=node) for node in ("node-a", "node-b") for number in range(3))
    by_hash = history.runs(node=hash_of("node-b"), profile=PROFILE)
    assert by_hash == tuple(run(number, node="node-b") for number in (2, 1, 0))
    assert history.runs(node="node-b") == by_hash
    assert [one.started_at for one in history.runs(node="node-b", limit=2)] == [START + 2 * DAY, START + DAY]


def test_classes_say_how_much_there_is(history: History) -> None:
    history.put_many([run(0), run(1, node="node-b"), run(2, state=RunState.ERROR)])
    (found,) = history.classes()
    assert (found.class_hash, found.profile, found.nodes) == (CLASS, PROFILE, 2)
    assert dict(found.states) == {"complete": 2, "error": 1}
    assert (found.first, found.last) == (START, START + 2 * DAY)


@pytest.mark.parametrize("name", ["record", "class_hash", "kin_hash", "node_hash", "profile"])
@pytest.mark.parametrize("value", ["", "unknown: the driver could not be read"])
def test_what_is_unknown_is_no_key(history: History, name: str, value: str) -> None:
    with pytest.raises(Refused, match="unknown"):
        history.put(replace(run(), **{name: value}))  # type: ignore[arg-type]
    assert history.runs() == ()


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_time_that_is_no_number_is_refused_with_all_that_came_with_it(history: History, number: float) -> None:
    bad = replace(run(1), values=(*run(1).values, HistoryValue(CELLS[0], number, 1.0)))
    with pytest.raises(Refused, match="time_us of all_reduce with 1024 bytes is no number"):
        history.put_many([run(0), bad])
    with pytest.raises(Refused, match="its start is no time"):
        history.put(replace(run(), started_at=number))
    assert history.runs() == ()


def test_a_class_hash_that_comes_with_other_settings_is_refused_and_nothing_stored(history: History) -> None:
    history.put(run())
    with pytest.raises(Conflict, match="NCCL_PROTO"):
        history.put_many([run(1), run(2, settings=(("NCCL_PROTO", "LL"),))])
    with pytest.raises(Conflict, match="stored with other content"):
        history.put(run(3, kin_hash=hash_of("another kin")))
    assert history.runs() == (run(),)


def test_texts_of_failing_machines_are_stored_as_visible_escapes(history: History) -> None:
    history.put(replace(run(), host="n\x00de-\udcff", reason="a\x00b" + "x" * 10_000))
    (found,) = history.runs()
    assert found.host == "n\\x00de-\\udcff"
    assert found.reason.startswith("a\\x00b")
    assert len(found.reason) < 5_000
