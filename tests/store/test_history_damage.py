"""A value that was changed in the tables decides nothing: it is found where it is read, and can be removed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import text

from history_made import CELLS, CLASS, PROFILE, START, fingerprint, run
from rankmuster.model.benchmark import HistoryRun
from rankmuster.store.errors import Damaged, Refused
from rankmuster.store.history import History
from rankmuster.store.parquet_write import write_parquet
from rankmuster.store.records import with_record
from rankmuster.store.verify import remove_changed, verify

CHANGES = {
    "a factor": "UPDATE rankmuster_result SET busbw = busbw * 3",
    "infinite": "UPDATE rankmuster_result SET busbw = 9e999 WHERE position = 0",
    "negative": "UPDATE rankmuster_result SET busbw = -5",
    "no time": "UPDATE rankmuster_result SET time_us = 0 WHERE position = 1",
    "another size": "UPDATE rankmuster_cell SET size_bytes = 2048 WHERE size_bytes = 1024",
    "a lost result": "DELETE FROM rankmuster_result WHERE position = 2",
    "another time": "UPDATE rankmuster_run SET started_at = started_at + 1",
    "another node": "UPDATE rankmuster_node SET node_hash = 'sha256:other'",
    "a text": "UPDATE rankmuster_result SET busbw = 'abc' WHERE position = 0",
    "a state": "UPDATE rankmuster_run SET state = 'passed'",
    "a start": "UPDATE rankmuster_run SET started_at = 'yesterday'",
    "an operation": "UPDATE rankmuster_cell SET operation = 'all_dance'",
}
TEXTS = ("a text", "a start")
"""What a PostgreSQL column of numbers does not take."""


def stored(history: History, count: int = 3) -> list[HistoryRun]:
    made = [with_record(run(number)) for number in range(count)]
    history.put_many(made)
    return made


def change(history: History, statement: str) -> None:
    if history.name.startswith("postgresql"):
        statement = statement.replace("9e999", "'Infinity'")
    with history.writing("changing by hand") as connection:
        connection.execute(text(statement))


@pytest.mark.parametrize("what", CHANGES)
def test_a_changed_value_is_found_by_whatever_reads_it(history: History, what: str, tmp_path: Path) -> None:
    if what in TEXTS and history.name.startswith("postgresql"):
        pytest.skip("a column of numbers takes no text there")
    stored(history)
    change(history, CHANGES[what])
    with pytest.raises(Damaged, match=r"as it was stored.*rankmuster history verify"):
        history.class_history(CLASS, PROFILE)
    with pytest.raises(Damaged):
        history.runs()
    with pytest.raises(Damaged):
        write_parquet(history, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert verify(history).changed


def test_what_only_the_record_tells_is_found_by_verifying_and_can_be_removed(history: History) -> None:
    stored(history)
    assert verify(history).changed == ()
    change(history, f"UPDATE rankmuster_run SET reason = 'it was slow' WHERE started_at = {START}")
    found = verify(history)
    assert (found.runs, len(found.changed)) == (3, 1)
    remove_changed(history)
    assert verify(history).runs == 2
    assert history.class_history(CLASS, PROFILE).total == 2


def test_the_record_of_a_run_that_was_read_back_is_its_own(history: History) -> None:
    odd = replace(run(), host="nod\udcffe", reason="cut \udc80 here", started_at=int(START))
    whole = replace(odd.values[0], busbw=100, time_us=7)
    made = with_record(replace(odd, values=(whole, replace(whole, cell=CELLS[1], min_us=-0.0))))
    history.put(made)
    assert history.runs() == (made,)
    assert verify(history).changed == ()


def test_damage_elsewhere_is_said_too(history: History) -> None:
    history.put_fingerprint(fingerprint(), b"{}")
    change(
        history,
        "INSERT INTO rankmuster_change (class_hash, profile, at, nodes, state, note) VALUES ('c', 'p', 1, 1, 'x', '')",
    )
    with pytest.raises(Damaged, match="a change point"):
        history.changes()


@pytest.mark.parametrize(("busbw", "time_us"), [(-1.0, 5.0), (5.0, 0.0), (5.0, -1.0), (float("inf"), 5.0)])
def test_what_nothing_measures_is_not_stored(history: History, busbw: float, time_us: float) -> None:
    value = replace(run().values[0], busbw=busbw, time_us=time_us)
    with pytest.raises(Refused, match="cannot be stored"):
        history.put(replace(run(), values=(value,)))


@pytest.mark.parametrize("at", [-8.64e24, -1.0, 1.76e12, float("nan")])
def test_a_time_at_which_nothing_ran_is_not_stored(history: History, at: float) -> None:
    with pytest.raises(Refused, match="no time of a run"):
        history.put(run(at=at))
