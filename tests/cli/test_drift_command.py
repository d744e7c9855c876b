"""`rankmuster drift` as a command, over a real history: options, formats, exit statuses, marks and metrics."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from drift_fleet import DAY, PROFILE, START, fingerprint, fleet
from rankmuster.baseline.drift.fleet import Fleet
from rankmuster.cli.drift import drift
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.model.benchmark import HistoryRun, HistoryValue, RunState
from rankmuster.model.history import ChangeState
from rankmuster.report.fingerprint_yaml import as_yaml
from rankmuster.store.history import History

Run = Callable[..., tuple[int, str, str]]

SINCE = ("--since", "all")


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "160")  # test runners set it to the width of their own
    app = typer.Typer()
    app.command("drift")(drift)

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        try:
            status = get_command(app).main(args=[str(one) for one in arguments], standalone_mode=False)
        except CommandError as error:
            return int(ExitStatus.NO_ANSWER), "", str(error)
        out = capsys.readouterr()
        return int(status or 0), out.out, out.err

    return run


def runs_of(made: Fleet) -> Iterable[HistoryRun]:
    for history in made.histories:
        for index, node in enumerate(history.nodes):
            values = tuple(
                HistoryValue(
                    cell,
                    time_us=float(column.time_us[index]),
                    busbw=float(column.busbw[index]),
                    rank_spread_percent=float(column.rank_spread_percent[index]),  # type: ignore[index]
                )
                for cell, column in history.cells.items()
            )
            yield HistoryRun(
                record=history.records[index],
                class_hash=history.class_hash,
                kin_hash=history.class_hash.replace("class", "kin"),
                node_hash=node,
                host=node.removeprefix("node-"),
                profile=PROFILE,
                tool="built-in",
                started_at=float(history.started_at[index]),
                state=RunState.COMPLETE,
                values=values,
            )


def stored(folder: Path, made: Fleet) -> Path:
    """A history with the fleet in it."""
    path = folder / "history.db"
    with History.open(str(path)) as history:
        history.put_many(runs_of(made))
        for node in made.nodes:
            for one in node.fingerprints:
                history.put_fingerprint(one, as_yaml(one).encode())
    return path


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("healthy"), fleet(6, days=14))


@pytest.fixture(scope="module")
def slowed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Six of 40 nodes got another driver, and became slower with it; a seventh became slower by itself."""

    def driver(node: int, day: float) -> str:
        return "580.2" if node < 6 and day >= 10 else "580.1"

    def speed(node: int, day: float) -> float:
        return 0.9 if (node < 6 and day >= 10) or (node == 20 and day >= 5) else 1.0

    return stored(tmp_path_factory.mktemp("slowed"), fleet(40, days=16, driver=driver, speed=speed))


def test_a_healthy_fleet_ends_with_0(run: Run, healthy: Path) -> None:
    status, out, _ = run("--all", "--history", healthy, *SINCE)
    assert status == 0, out
    assert out.startswith("no drift: 6 nodes as the baseline\n")


def test_a_rollout_that_slows_ends_with_1_and_says_to_stop(run: Run, slowed: Path) -> None:
    status, out, _ = run("--all", "--history", slowed, *SINCE)
    assert status == 1
    assert out.splitlines()[0] == "systematic drift on 7 nodes of 40: stop the rollout"
    assert "driver: 580.1 -> 580.2" in " ".join(out.split())
    assert "all 6 nodes with driver 580.2" in " ".join(out.split())
    assert "h-0020" in out


def test_json_has_every_node_and_what_to_measure_anew(run: Run, slowed: Path, tmp_path: Path) -> None:
    target = tmp_path / "drift.json"
    status, out, err = run("--all", "--history", slowed, "--format", "json", "--output", target, *SINCE)
    assert (status, out) == (1, "")
    assert "wrote" in err
    answer = json.loads(target.read_text(encoding="utf-8"))
    assert answer["schema"] == "rankmuster.drift/1"
    assert answer["outcome"] == "drift"
    assert answer["stop_rollout"] is True
    assert answer["baseline_applies"] is False
    assert answer["nodes"] == 40
    systematic = [one for one in answer["findings"] if one["scope"] == "systematic" and one["kind"] == "bandwidth"]
    assert systematic[0]["nodes"] == [f"h-{node:04d}" for node in range(6)]
    assert systematic[0]["change"]["part"] == "driver"


def test_a_rollout_that_was_taken_back_needs_no_new_baseline(run: Run, tmp_path: Path) -> None:
    """Asked from a day on which the nodes had the other driver: that they had the first before is in the history."""

    def has_it(node: int, day: float) -> bool:
        return node < 6 and 8 <= day < 16

    made = fleet(
        20,
        days=24,
        driver=lambda node, day: "580.2" if has_it(node, day) else "580.1",
        speed=lambda node, day: 0.93 if has_it(node, day) else 1.0,
    )
    path = stored(tmp_path, made)
    status, out, _ = run("--all", "--history", path, *SINCE)
    assert status == 0, out
    assert "6 nodes that had it are at their level again" in " ".join(out.split())
    status, out, _ = run("--all", "--history", path, "--since", f"{START + 12 * DAY:.0f}")
    assert status == 1
    text = " ".join(out.split())
    assert "driver: 580.2 -> 580.1" in text
    assert "the baseline of then applies again" in text
    assert "results from before cannot be compared with" not in text
    assert "stop the rollout" not in text


def test_one_node_of_it_is_compared_by_its_newest_stored_fingerprint(run: Run, slowed: Path) -> None:
    status, out, _ = run("--host", "h-0020", "--history", slowed, *SINCE)
    assert status == 1
    assert out.startswith("drift of the node\n")
    assert "little by little" not in out
    assert run("--host", "h-0021", "--history", slowed, *SINCE)[0] == 0


def test_a_node_of_a_rollout_is_said_to_be_one_of_many(run: Run, slowed: Path) -> None:
    status, out, _ = run("--host", "h-0003", "--history", slowed, *SINCE)
    assert status == 1
    text = " ".join(out.split())
    assert "stop the rollout" in text.splitlines()[0]
    assert "6 of the 6 nodes that changed: h-0000, h-0001, h-0002 and 3 more" in text
    assert "h-0020" not in text


def test_results_without_any_fingerprint_are_compared_all_the_same(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    made = fleet(6, days=16, speed=lambda node, day: 0.9 if node == 2 and day >= 10 else 1.0)
    with History.open(str(path)) as history:
        history.put_many(runs_of(made))
    for asked in (("--all",), ("--host", "h-0002")):
        status, out, _ = run(*asked, "--history", path, *SINCE)
        assert status == 1
        assert "h-0002: all_reduce at plateau sizes is" in " ".join(out.split())
        assert "there is no fingerprint of it" in " ".join(out.split())


def test_without_the_packages_of_the_history_it_says_which_extra_brings_them(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from rankmuster.cli.drift import drift\n"
        "from rankmuster.cli.status import CommandError\n"
        "try:\n    drift(everybody=True, history='x.db')\nexcept CommandError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert "pip install 'rankmuster[history]'" in done.stdout, done.stderr


def test_a_node_may_be_asked_for_by_its_hash(run: Run, slowed: Path) -> None:
    assert run("--host", "node-h-0020", "--history", slowed, *SINCE)[0] == 1


def test_a_file_stands_for_what_the_node_is_now(run: Run, healthy: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.yaml"
    now.write_text(as_yaml(fingerprint("h-0001", day=15, settings={"NCCL_PROTO": "LL"})), encoding="utf-8")
    status, out, _ = run("--host", "h-0001", "--history", healthy, "--fingerprint", now, *SINCE)
    assert status == 1
    assert "NCCL_PROTO" in out
    assert "results from before cannot be compared with" in out


def test_the_fingerprint_of_another_node_is_refused(run: Run, healthy: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.yaml"
    now.write_text(as_yaml(fingerprint("h-0002", day=15)), encoding="utf-8")
    status, _, err = run("--host", "h-0001", "--history", healthy, "--fingerprint", now)
    assert status == 3
    assert "is the fingerprint of h-0002, and --host says h-0001" in err


def test_a_node_without_history_cannot_be_told(run: Run, healthy: Path, tmp_path: Path) -> None:
    now = tmp_path / "now.yaml"
    now.write_text(as_yaml(fingerprint("h-9", day=15)), encoding="utf-8")
    status, out, _ = run("--history", healthy, "--fingerprint", now)
    assert status == 2
    assert out.startswith("cannot tell")
    assert "no fingerprint of it was stored before" in " ".join(out.split())
    assert "the history has no results of it" in " ".join(out.split())


def test_this_machine_is_taken_live_and_no_past_of_it_is_said_to_be_missing(run: Run, healthy: Path) -> None:
    status, out, _ = run("--history", healthy, "--image-digest", "none", "--engine", "none")
    assert status == 2
    assert "no fingerprint of it was stored before" in " ".join(out.split())


def test_only_errored_runs_cannot_be_told_and_are_counted(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    with History.open(str(path)) as history:
        for day in (0, 3):
            one = fingerprint("h-1", day=day)
            history.put_fingerprint(one, as_yaml(one).encode())
        history.put_many(
            HistoryRun(
                f"r{n}", "class-580.1", "kin-580.1", "node-h-1", "h-1", PROFILE, "built-in", START + n, RunState.ERROR
            )
            for n in range(3)
        )
    status, out, _ = run("--all", "--history", path, *SINCE)
    assert status == 2
    assert "3 error" in out


def test_an_empty_history_says_how_it_is_filled(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "history.db"
    History.open(str(path)).close()
    status, _, err = run("--all", "--history", path)
    assert status == 3
    assert "rankmuster admit" in err


def test_no_history_at_all_is_bad_usage_and_none_is_made(run: Run, tmp_path: Path) -> None:
    status, _, err = run("--all", "--history", tmp_path / "none.db")
    assert status == 3
    assert "none.db" in err
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--all", "--host", "h-1"), "--all"),
        (("--all", "--pid", "1"), "--all"),
        (("--host", "h-1", "--since", "yesterday"), "is no time"),
        (("--host", "h-1", "--since", "2999-01-01"), "has not come yet"),
        (("--host", "h-1", "--engine", "vllm=1"), "are of this machine"),
        (("--host", "h-1", "--fingerprint", "missing.yaml"), "cannot read missing.yaml"),
    ],
)
def test_what_cannot_be_asked_is_refused(run: Run, healthy: Path, arguments: tuple[str, ...], words: str) -> None:
    status, _, err = run("--history", healthy, *arguments)
    assert status == 3
    assert words in err


@pytest.mark.parametrize("content", [b"", b"{", b"schema: x\n", b"\xff\xfe", b"[" * 9000])
def test_a_file_that_is_no_fingerprint_is_refused_by_its_name(
    run: Run, healthy: Path, tmp_path: Path, content: bytes
) -> None:
    now = tmp_path / "now.yaml"
    now.write_bytes(content)
    status, _, err = run("--history", healthy, "--fingerprint", now)
    assert status == 3
    assert "now.yaml" in err


def test_steps_of_a_class_are_listed_and_marked_only_where_asked(run: Run, tmp_path: Path) -> None:
    made = fleet(8, days=24, speed=lambda _node, day: 0.9 if day >= 14 else 1.0)
    path = stored(tmp_path, made)
    assert run("--all", "--history", path, *SINCE)[0] == 1
    with History.open(str(path)) as history:
        assert history.changes() == ()
    status, _, err = run("--all", "--history", path, "--mark", *SINCE)
    assert status == 1
    assert "rankmuster history changes accept 1" in err
    with History.open(str(path)) as history:
        marked = history.changes()
    assert marked
    assert {point.state for point in marked} == {ChangeState.OPEN}
    again = run("--all", "--history", path, "--mark", *SINCE)
    assert again[0] == 1
    with History.open(str(path)) as history:
        assert history.changes() == marked


def test_metrics_are_written_whole_beside_the_answer(run: Run, slowed: Path, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    page = tmp_path / "rankmuster.prom"
    status, out, _ = run("--all", "--history", slowed, "--metrics", page, *SINCE)
    assert status == 1
    assert out
    text = page.read_text(encoding="utf-8")
    assert "rankmuster_drift_stop_rollout 1.0" in text
    assert 'rankmuster_drift_change_ratio{host="h-0020",kind="bandwidth"}' in text
    assert os.listdir(tmp_path) == ["rankmuster.prom"]


def test_metrics_that_cannot_be_written_are_an_error(run: Run, slowed: Path, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    status, _, err = run("--all", "--history", slowed, "--metrics", tmp_path / "no" / "folder.prom", *SINCE)
    assert status == 3
    assert "cannot write" in err


def test_nothing_of_the_history_is_changed_by_looking(run: Run, slowed: Path) -> None:
    before = slowed.read_bytes()
    run("--all", "--history", slowed, *SINCE)
    assert slowed.read_bytes() == before
