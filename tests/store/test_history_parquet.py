"""A history can be taken elsewhere and read in a notebook: nothing is lost on the way, and nothing half comes in."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from history_made import CELLS, CLASS, PROFILE, START, admission, change, fingerprint, hash_of, run
from rankmuster.model.benchmark import RunState
from rankmuster.model.history import ChangeState
from rankmuster.store.errors import Conflict, Refused
from rankmuster.store.history import History
from rankmuster.store.parquet_read import read_parquet
from rankmuster.store.parquet_seal import seal
from rankmuster.store.parquet_write import write_parquet

pq = pytest.importorskip("pyarrow.parquet")

FORMS = ("folder", "one.parquet")


def content(history: History) -> object:
    """Everything, but for the numbers that a database gives."""
    return (
        history.runs(limit=None),
        history.fingerprints(),
        history.admissions(),
        [replace(point, id=None) for point in history.changes()],
        history.classes(),
        history.topologies("NVIDIA H200", 8),
    )


@pytest.fixture
def full(history: History) -> History:
    """A history with something of everything."""
    history.put_many(run(number, node=f"node-{number % 3}") for number in range(700))
    history.put_many(run(number, state=state, busbw=50.0) for number, state in enumerate(RunState))
    history.put(replace(run(0, node="odd"), host=None, choices=(), settings=run().settings, values=run().values[:1]))
    history.put_fingerprint(fingerprint(), b"\x00\xff a document")
    history.put_fingerprint(replace(fingerprint(node="odd"), class_hash=hash_of("odd"), host=None), b"")
    history.put_admission(admission(nodes=("node-a", "knöten")), b"{}")
    history.put_change(change(START + 500, cell=CELLS[1]))
    history.put_change(change(START, state=ChangeState.DISMISSED, until=START + 5, before=None, after=None))
    return history


@pytest.fixture
def elsewhere(tmp_path: Path) -> History:
    """An empty history to import into."""
    return History.open(str(tmp_path / "elsewhere.db"))


@pytest.mark.parametrize("form", FORMS)
def test_what_goes_out_comes_in_as_it_was_and_once(
    full: History, elsewhere: History, tmp_path: Path, form: str
) -> None:
    counts = write_parquet(full, tmp_path / form)
    assert counts["runs"] == 700 + len(RunState) + 1
    done = read_parquet(elsewhere, [tmp_path / form])
    assert (done.runs, done.results, done.known) == (counts["runs"], counts["results"], 0)
    assert content(elsewhere) == content(full)
    again = read_parquet(elsewhere, [tmp_path / form])
    assert (again.runs, again.results, again.fingerprints, again.changes, again.admissions) == (0,) * 5
    assert again.known == counts["runs"] + 2 + 2 + 1
    assert content(elsewhere) == content(full)
    assert read_parquet(full, [tmp_path / form]).runs == 0
    with pytest.raises(Conflict):
        elsewhere.put_fingerprint(fingerprint(node="new", driver="1"), b"")


def test_files_named_one_by_one_belong_together(full: History, elsewhere: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "out")
    read_parquet(elsewhere, sorted((tmp_path / "out").iterdir()))
    assert content(elsewhere) == content(full)


def test_a_notebook_finds_flat_columns_with_units(full: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "out")
    results = pq.read_table(tmp_path / "out" / "results.parquet").to_pylist()
    runs = {row["record"]: row for row in pq.read_table(tmp_path / "out" / "runs.parquet").to_pylist()}
    row = results[0]
    assert (row["operation"], row["size_bytes"], row["dtype"], row["graph"]) == ("all_reduce", 1024, "bfloat16", False)
    assert runs[row["record"]]["profile"] == PROFILE
    assert {runs[one["record"]]["state"] for one in results} >= {"complete", "hung"}


def test_runs_that_are_there_stay_and_a_decision_stays(full: History, elsewhere: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "out")
    elsewhere.put(run(0, node="node-0"))
    mine = elsewhere.put_change(change(START + 500, cell=CELLS[1]))
    elsewhere.set_change_state(mine.id or 0, ChangeState.ACCEPTED)
    done = read_parquet(elsewhere, [tmp_path / "out"])
    assert (done.known, done.differing) == (2, 1)
    assert ChangeState.ACCEPTED in {point.state for point in elsewhere.changes()}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_a_file_that_was_cut_off_stores_nothing(
    full: History, elsewhere: History, tmp_path: Path, form: str, share: float
) -> None:
    write_parquet(full, tmp_path / form)
    file = tmp_path / form / "results.parquet" if form == "folder" else tmp_path / form
    file.write_bytes(file.read_bytes()[: int(file.stat().st_size * share)])
    with pytest.raises(Refused, match="cut off or damaged"):
        read_parquet(elsewhere, [tmp_path / form])
    assert elsewhere.classes() == ()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("share", [0.1, 0.5, 0.99])
def test_a_file_that_is_damaged_inside_stores_nothing(
    full: History, elsewhere: History, tmp_path: Path, form: str, share: float
) -> None:
    write_parquet(full, tmp_path / form)
    file = tmp_path / form / "results.parquet" if form == "folder" else tmp_path / form
    data = bytearray(file.read_bytes())
    data[int(len(data) * share)] ^= 1
    file.write_bytes(data)
    with pytest.raises(Refused, match="damaged"):
        read_parquet(elsewhere, [tmp_path / form])
    assert elsewhere.classes() == ()


def test_a_good_file_beside_a_bad_one_is_not_stored_either(full: History, elsewhere: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "good.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(Refused, match=r"bad\.parquet"):
        read_parquet(elsewhere, [tmp_path / "good.parquet", tmp_path / "bad.parquet"])
    assert elsewhere.classes() == ()


def test_parquet_of_something_else_is_named(elsewhere: History, tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    pq.write_table(arrow.table({"x": [1]}), tmp_path / "other.parquet")
    with pytest.raises(Refused, match="no history"):
        read_parquet(elsewhere, [tmp_path / "other.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(Refused, match="no file ending with"):
        read_parquet(elsewhere, [tmp_path / "empty"])
    with pytest.raises(Refused, match="No such file"):
        read_parquet(elsewhere, [tmp_path / "missing.parquet"])


def test_a_folder_that_lacks_a_table_is_not_imported(full: History, elsewhere: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "out")
    (tmp_path / "out" / "results.parquet").unlink()
    with pytest.raises(Refused, match=r"the export has results too .*whole folder"):
        read_parquet(elsewhere, [tmp_path / "out"])


def test_files_of_two_exports_are_not_taken_for_one(full: History, elsewhere: History, tmp_path: Path) -> None:
    write_parquet(full, tmp_path / "one")
    write_parquet(full, tmp_path / "two")
    (tmp_path / "two" / "results.parquet").replace(tmp_path / "one" / "results.parquet")
    with pytest.raises(Refused, match="two exports"):
        read_parquet(elsewhere, [tmp_path / "one"])
    assert elsewhere.runs() == ()


def test_a_named_pipe_is_not_waited_for(elsewhere: History, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "runs.parquet")
    for named in (tmp_path, tmp_path / "runs.parquet"):
        with pytest.raises(Refused, match="no regular file"):
            read_parquet(elsewhere, [named])


@pytest.mark.parametrize(
    ("table", "column", "value", "said"),
    [
        ("runs", "state", "splendid", "splendid"),
        ("runs", "record", "", "unknown"),
        ("runs", "settings", "{", "cannot be read"),
        ("runs", "choices", "[[1]]", "cannot be read"),
        ("runs", "started_at", float("nan"), "started_at"),
        ("runs", "results", 2, "lack results|does not count"),
        ("results", "busbw", float("inf"), "busbw"),
        ("results", "time_us", None, "time_us"),
        ("results", "operation", "all_dance", "all_dance"),
        ("results", "position", 0, "contradicts itself"),
        ("results", "record", "nobody's", "does not count"),
        ("changes", "state", "maybe", "maybe"),
        ("changes", "at", None, "number as at"),
        ("fingerprints", "class_definition", "{}", "stored with other content"),
        ("admissions", "hash", None, "hash"),
    ],
)
def test_a_row_that_was_edited_is_named_and_nothing_is_stored(
    full: History, elsewhere: History, tmp_path: Path, table: str, column: str, value: object, said: str
) -> None:
    elsewhere.put_fingerprint(fingerprint(node="there"), b"there")
    before = content(elsewhere)
    write_parquet(full, tmp_path / "out")
    file = tmp_path / "out" / f"{table}.parquet"
    whole = pq.read_table(file)
    rows = whole.to_pylist()
    rows[1 if table in ("runs", "results") else 0][column] = value
    pq.write_table(type(whole).from_pylist(rows, schema=whole.schema), file)
    with pytest.raises(Refused, match="damaged or was changed"):
        read_parquet(elsewhere, [tmp_path / "out"])
    seal(file)
    with pytest.raises((Refused, Conflict), match=said):
        read_parquet(elsewhere, [tmp_path / "out"])
    assert content(elsewhere) == before


def test_an_export_never_writes_over_a_folder_and_leaves_nothing_when_it_fails(full: History, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with pytest.raises(Refused, match="there already"):
        write_parquet(full, tmp_path / "there")
    with pytest.raises(Refused, match="cannot export"):
        write_parquet(full, tmp_path / "missing" / "out")
    write_parquet(full, tmp_path / "one.parquet")
    write_parquet(full, tmp_path / "one.parquet")  # a file is replaced by the new one as a whole
    assert {path.name for path in tmp_path.iterdir()} - {"history.db", "history.db-wal", "history.db-shm"} == {
        "there",
        "one.parquet",
    }


def test_an_empty_history_goes_out_and_in(history: History, elsewhere: History, tmp_path: Path) -> None:
    for form in FORMS:
        assert sum(write_parquet(history, tmp_path / form).values()) == 0
        assert read_parquet(elsewhere, [tmp_path / form]).runs == 0
    assert elsewhere.class_history(CLASS, PROFILE).total == 0
