"""`rankmuster history` as a command: what is shown, stored, decided and moved, and every exit status."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from command_run import Run, runner
from history_made import CELLS, CLASS, DAY, PROFILE, START, change, fingerprint, hash_of, run
from rankmuster.cli.history import app
from rankmuster.cli.history_named import moment
from rankmuster.evidence.benchmark_file import read_benchmark
from rankmuster.evidence.fingerprint_file import read_fingerprint
from rankmuster.model.benchmark import BenchmarkRank, BenchmarkRun, Measurement, RunState
from rankmuster.report.benchmark_json import as_json
from rankmuster.report.fingerprint_yaml import as_yaml

pytest.importorskip("sqlalchemy")
from rankmuster.store.history import History
from rankmuster.store.records import with_record


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The history that the command finds by itself."""
    monkeypatch.delenv("RANKMUSTER_HISTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path / "state" / "rankmuster" / "history.db"


@pytest.fixture
def filled(place: Path) -> Path:
    """Ten days of two nodes, one run that hung, and a step that nobody has decided about."""
    with History.open(str(place)) as history:
        history.put_many(run(number, node=node) for node in ("node-a", "node-b") for number in range(10))
        history.put(run(3, state=RunState.HUNG))
        history.put(run(1, class_hash=hash_of("kin"), settings=()))
        history.put_change(change(START + 6 * DAY))
    return place


@pytest.fixture
def do(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "160")  # test runners set it to the width of their own

    return runner(app, capsys)


def test_the_classes_are_listed_with_what_there_is_to_decide(filled: Path, do: Run) -> None:
    status, out, _ = do("show")
    assert status == 0
    lines = out.splitlines()
    assert len(lines) == 3
    line = next(line for line in lines if CLASS[7:19] in line)
    assert line.split()[2:5] == [PROFILE, "2", "20"]
    assert "1 hung" in line
    assert "NCCL_PROTO=Simple" in line


def test_a_class_is_shown_by_its_first_digits_with_quantiles_per_size(filled: Path, do: Run) -> None:
    status, out, _ = do("show", "--class", CLASS[7:12], "--profile", "tp8-decode")
    assert status == 0
    assert "baseline: 12 of 12 complete runs, of 2 nodes; not in it: 1 hung, 8 outside_baseline" in out
    assert "change point 1: open" in out
    (row,) = (line for line in out.splitlines() if "64 MiB" in line)
    assert row.split()[:6] == ["all_reduce", "64", "MiB", "bfloat16", "-", "12"]
    status, out, _ = do("show", "--class", CLASS, "--format", "json")
    found = json.loads(out)
    assert found["schema"] == "rankmuster.history/1"
    (one,) = found["classes"]
    assert one["baseline_runs"] == 12
    assert one["cells"][0]["busbw"]["p50"] == 102.5
    assert one["cells"][0]["operation"] == "all_reduce"


@pytest.mark.parametrize("named", ["links", "links@0123456789ab", "links/built-in", "links@0123456789ab/built-in"])
@pytest.mark.parametrize("command", ["show", "runs"])
def test_a_profile_goes_by_its_name_its_key_and_its_tool(place: Path, do: Run, command: str, named: str) -> None:
    with History.open(str(place)) as history:
        history.put_many([run(0, profile="links@0123456789ab/built-in"), run(1)])
    status, out, _ = do(command, "--profile", named)
    assert (status, len(out.splitlines())) == (0, 2)
    assert "links@0123456789ab/built-in" in out


def test_runs_are_listed_in_every_state(filled: Path, do: Run) -> None:
    status, out, _ = do("runs", "--state", "hung")
    assert (status, len(out.splitlines())) == (0, 2)
    assert "it was hung" in out
    status, out, _ = do("runs", "--node", "node-b", "--since", "2025-10-13", "--limit", 2, "--format", "json")
    found = json.loads(out)["runs"]
    assert [one["started_at"] for one in found] == [START + 9 * DAY, START + 8 * DAY]
    assert found[0]["values"][0]["busbw"] == 109.0
    assert do("runs", "--node", "nobody")[1] == "no run\n"
    assert do("runs", "--output", filled.with_name("runs.txt"))[0] == 0
    assert filled.with_name("runs.txt").read_text().startswith("record")


def test_an_open_change_point_is_decided_and_the_baseline_follows(filled: Path, do: Run) -> None:
    status, out, _ = do("changes", "list")
    assert (status, "open" in out) == (1, True)
    status, _, err = do("changes", "accept", 1, "--note", "new firmware")
    assert status == 0
    assert "is accepted; the baseline of its class has 8 complete runs now" in err
    assert do("changes", "list")[0] == 0
    status, _, err = do("changes", "dismiss", 1, "--until", START + 7 * DAY)
    assert "dismissed until" in err
    assert "has 18 complete runs now" in err
    status, out, _ = do("changes", "list", "--format", "json", "--state", "dismissed")
    (point,) = json.loads(out)["changes"]
    assert (point["state"], point["note"], point["until"]) == ("dismissed", "new firmware", START + 7 * DAY)
    assert do("changes", "reopen", 1)[0] == 0
    assert do("changes", "list", "--state", "accepted")[:2] == (1, "no change point\n")


@pytest.mark.parametrize("form", ["out", "out.parquet"])
def test_a_history_is_taken_elsewhere(filled: Path, do: Run, tmp_path: Path, form: str) -> None:
    pytest.importorskip("pyarrow")
    status, _, err = do("export", "--output", tmp_path / form)
    assert (status, "22 runs, 66 results" in err) == (0, True)
    target = tmp_path / "other.db"
    status, _, err = do("import", tmp_path / form, "--history", target)
    assert (status, "stored 22 runs with 66 results" in err) == (0, True)
    assert "23 were there already" in do("import", tmp_path / form, "--history", target)[2]
    with History.open(str(target)) as other, History.open(str(filled)) as own:
        assert other.runs(limit=None) == own.runs(limit=None)


def test_old_runs_are_removed_only_when_that_is_said(filled: Path, do: Run) -> None:
    status, _, err = do("forget", "--older-than", "1w")
    assert (status, "22 runs started before" in err, "nothing was removed" in err) == (0, True, True)
    assert len(do("runs")[1].splitlines()) == 23
    status, _, err = do("forget", "--older-than", "1w", "--yes")
    assert (status, "removed 22 runs" in err) == (0, True)
    assert do("runs")[1] == "no run\n"
    assert do("changes", "list")[0] == 1
    assert do("forget", "--older-than", "0d", "--yes")[0] == 3


def test_an_upgrade_says_what_it_did(filled: Path, do: Run) -> None:
    status, _, err = do("upgrade")
    assert (status, "is up to date" in err) == (0, True)


@pytest.fixture
def measured(tmp_path: Path) -> tuple[Path, Path]:
    """(a benchmark's file with a good run and one that hung, the fingerprint's file)."""
    good = BenchmarkRun(
        source="measured here",
        tool="built-in",
        tool_version="0.1",
        nccl_version="2.28.9",
        started_at=START,
        state=RunState.COMPLETE,
        reason="",
        ranks=tuple(BenchmarkRank(rank, "node-a", None, rank, None, None) for rank in range(8)),
        measurements=tuple(Measurement(cell, cell.size_bytes / 4e5, 400.0, 700.0, 0) for cell in CELLS),
    )
    hung = replace(good, started_at=START + 1, state=RunState.HUNG, reason="time limit of 60 s", measurements=())
    (tmp_path / "runs.json").write_text(as_json(good) + as_json(hung))
    (tmp_path / "good.json").write_text(as_json(good))
    (tmp_path / "node.yaml").write_text(as_yaml(fingerprint()))
    return tmp_path / "runs.json", tmp_path / "node.yaml"


def test_measured_runs_are_added_with_their_fingerprint_once(place: Path, do: Run, measured: tuple[Path, Path]) -> None:
    runs, node = measured
    status, _, err = do("add", runs.with_name("good.json"), "--fingerprint", node, "--profile", "links")
    assert (status, "stored 1 of 1 runs of links@" in err) == (0, True), err
    status, _, err = do("add", runs, "--fingerprint", node, "--profile", "links")
    assert (status, "stored 1 of 2" in err, "1 were there already" in err) == (1, True, True)
    assert "a run is hung and kept apart: time limit of 60 s" in err
    with History.open(str(place)) as history:
        assert {one.state for one in history.runs()} == {RunState.COMPLETE, RunState.HUNG}
        stored = history.fingerprint_of("node-a")
        assert stored is not None
        assert as_yaml(read_fingerprint(stored.document)) == node.read_text()


def test_nothing_is_added_when_one_part_does_not_fit(place: Path, do: Run, measured: tuple[Path, Path]) -> None:
    runs, node = measured
    options = ("--fingerprint", node, "--profile", "links")
    cut = runs.with_name("cut.json")
    cut.write_text(runs.read_text()[:200])
    for arguments, said in (
        ((runs, cut, *options), "cut.json"),
        ((runs, "--fingerprint", runs, "--profile", "links"), "cannot be used"),
        ((runs, "--fingerprint", node, "--profile", "nobody"), "nobody"),
        ((runs, "--fingerprint", runs.with_name("none"), "--profile", "links"), "No such file"),
    ):
        status, _, err = do("add", *arguments)
        assert (status, said in err) == (3, True), err
    assert not place.exists()
    with History.open(str(place)) as history:
        history.put_fingerprint(replace(fingerprint(node="other"), driver="older"), b"")
    status, _, err = do("add", runs, *options)
    assert (status, "stored with other content (driver)" in err) == (3, True), err
    assert do("runs")[1] == "no run\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("show", "--class", "0000"), "no class '0000'"),
        (("show", "--profile", "nobody"), "no runs of the profile"),
        (("runs", "--profile", "nobody"), "no profile 'nobody'"),
        (("show", "--class", ""), None),
        (("runs", "--since", "yesterday"), "no time"),
        (("forget", "--older-than", "soon"), "no length of time"),
        (("changes", "accept", "99"), "no change point 99"),
        (("changes", "dismiss", "1", "--until", "2001-01-01"), "before it"),
        (("import", "nothing.parquet"), "No such file"),
        (("show", "--history", "mysql://u:hunter2@h/d"), "cannot be opened"),
    ],
)
def test_what_cannot_be_done_is_said(filled: Path, do: Run, arguments: tuple[str, ...], said: str | None) -> None:
    status, _, err = do(*arguments)
    assert status == (0 if said is None else 3)
    assert said is None or said in err
    assert "hunter2" not in err


def test_a_history_that_is_not_there_is_not_made_by_a_question(place: Path, do: Run) -> None:
    for arguments in (("show",), ("runs",), ("changes", "list"), ("export", "--output", "x"), ("upgrade",)):
        status, _, err = do(*arguments)
        assert (status, "there is no history at" in err) == (3, True)
    assert not place.parent.exists()


def test_the_place_is_the_options_then_the_variables(
    filled: Path, do: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANKMUSTER_HISTORY", str(tmp_path / "elsewhere.db"))
    assert "elsewhere.db" in do("show")[2]
    assert do("show", "--history", filled)[0] == 0
    assert do("show", "--history", f"sqlite:///{filled}")[0] == 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30d", 1_800_000_000 - 30 * 86_400),
        ("36h", 1_800_000_000 - 129_600),
        ("2027-01-15", 1_799_971_200),
        ("2027-01-15T08:00", 1_800_000_000),
        ("2027-01-15T09:00+01:00", 1_800_000_000),
        ("2027-01-15T08:00:00Z", 1_800_000_000),
        ("1800000000.5", 1_800_000_000.5),
    ],
)
def test_times_are_utc_unless_they_say_otherwise(text: str, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    assert moment(text, "--since", 1_800_000_000.0) == seconds


def test_foreign_text_of_a_node_does_not_act(place: Path, do: Run) -> None:
    with History.open(str(place)) as history:
        history.put(replace(run(), host="\x1b[31mnode", state=RunState.ERROR, reason="a\nb\x07"))
    out = do("runs")[1]
    assert "\x1b" not in out
    assert "\x07" not in out
    assert len(out.splitlines()) == 2


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("2999-01-01", "has not come yet"),
        ("99999999999999999999d", "before 1970"),
        ("2009-12-31", "before 2010"),
        ("1970-01-02", "before 2010"),
    ],
)
def test_a_time_at_which_nothing_was_measured_is_refused(
    place: Path, do: Run, tmp_path: Path, measured: tuple[Path, Path], at: str, said: str
) -> None:
    (bare,) = (read_benchmark(line) for line in measured[0].with_name("good.json").read_bytes().splitlines())
    (tmp_path / "run.json").write_text(as_json(replace(bare, started_at=None)))
    status, _, words = do(
        "add", tmp_path / "run.json", "--fingerprint", measured[1], "--profile", "links", "--started-at", at
    )
    assert status == 3
    assert said in words
    assert not place.exists()


def test_an_import_that_fails_leaves_no_history_behind(place: Path, do: Run, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    assert do("import", tmp_path / "x.parquet")[0] == 3
    assert not place.parent.exists() or list(place.parent.iterdir()) == []


def test_a_list_without_end_is_refused_in_words(filled: Path, do: Run) -> None:
    with pytest.raises(Exception, match="1000000"):
        do("runs", "--limit", "999999999999999999999")


def test_every_run_is_verified_against_its_record(place: Path, do: Run) -> None:
    with History.open(str(place)) as history:
        history.put_many(with_record(run(number)) for number in range(3))
    status, out, _ = do("verify")
    assert (status, "all 3 runs are as they were stored" in out) == (0, True)
    with History.open(str(place)) as history, history.writing("changing by hand") as connection:
        connection.exec_driver_sql("UPDATE rankmuster_result SET busbw = 3 * busbw WHERE run_id = 1")
    status, out, err = do("verify")
    assert (status, "1 of 3" in err) == (1, True)
    assert out.startswith("sha256:")
    status, _, words = do("show", "--class", CLASS)
    assert (status, "is not as it was stored" in words) == (3, True)
    assert do("verify", "--remove")[0] == 1
    assert do("verify")[0] == 0
    assert do("show", "--class", CLASS)[0] == 0
