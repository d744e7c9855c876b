"""`rankmuster admit`, `admit pairs` and `admit verify`: answers, exit statuses, files, and refusals with a reason."""

from __future__ import annotations

import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.main import get_command

from admitted import HEALTHY, PROFILE, SAMPLES, fill, taken
from rankmuster.bench.profile_file import as_yaml as profile_yaml
from rankmuster.cli.admit import app
from rankmuster.cli.main import status_of
from rankmuster.model.benchmark import series_key
from rankmuster.report.fingerprint_yaml import as_yaml
from rankmuster.store.history import History

ROOT = Path(__file__).parents[2]


@pytest.fixture
def node(tmp_path: Path) -> list[str]:
    """Arguments for an admission of the captured node: its fingerprint, a quiet kernel log, the profile, a history."""
    fingerprint = tmp_path / "node7.yaml"
    fingerprint.write_text(as_yaml(taken().fingerprint))
    log = tmp_path / "dmesg.txt"
    log.write_text("2026-11-30T09:00:00.000000+00:00 node7 kernel: Linux version 6.8.0\n")
    profile = tmp_path / "profile.yaml"
    profile.write_text(profile_yaml(PROFILE))
    fill(tmp_path / "history.db", HEALTHY)
    return [
        *("admit", "--history", str(tmp_path / "history.db"), "--profile", str(profile)),
        *("--from", str(fingerprint), "--kernel-log", str(log)),
    ]


def sample(name: str) -> list[str]:
    return ["--from", str(SAMPLES / name)]


def test_pass(node: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of([*node, *sample("nt_ar_1.txt")]) == 0
    assert capfd.readouterr().out.startswith("PASS: node7: ")


def test_fail_names_the_setting(node: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of([*node, *sample("ar_ll.txt"), "--env", "NCCL_PROTO=LL"]) == 1
    assert capfd.readouterr().out.startswith("FAIL: node7: NCCL_PROTO=LL, unset in the class")


def test_provisional_is_its_own_status(node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    empty = [*node, *sample("nt_ar_1.txt"), "--history", str(tmp_path / "empty.db")]
    assert status_of(empty) == 2
    out = capfd.readouterr().out
    assert out.startswith("PROVISIONAL: node7: ")
    assert "floor" in out.splitlines()[0]


def test_error_is_no_pass(node: list[str], capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of([*node, *sample("ar_toomany.txt")]) == 3
    assert capfd.readouterr().out.startswith("ERROR: node7: ")


def test_the_answer_and_its_runs_are_kept_and_a_refused_one_stays_apart(node: list[str], tmp_path: Path) -> None:
    assert status_of([*node, *sample("nt_ar_1.txt"), "--output", str(tmp_path / "a.txt")]) == 0
    assert status_of([*node, *sample("ar_contended.txt"), "--output", str(tmp_path / "b.txt")]) == 1
    with History.open(str(tmp_path / "history.db")) as history:
        kept = history.admissions()
        assert sorted(one.decision for one in kept) == ["fail", "pass"]
        class_hash = taken().fingerprint.class_hash
        assert isinstance(class_hash, str)
        known = history.class_history(class_hash, series_key(PROFILE, "nccl-tests", 4))
        assert known.total == len(HEALTHY) + 1
        assert known.kept_out == {"contended": 1}
        assert history.fingerprint_of("node7") is not None
        document = json.loads(kept[0].document)
    assert document["hash"] == kept[0].hash


def test_the_same_file_brought_twice_is_one_run_of_the_baseline(node: list[str], tmp_path: Path) -> None:
    for _ in range(3):
        assert status_of([*node, *sample("nt_ar_1.txt"), "--output", str(tmp_path / "a.txt")]) == 0
    with History.open(str(tmp_path / "history.db")) as history:
        class_hash = taken().fingerprint.class_hash
        assert isinstance(class_hash, str)
        assert history.class_history(class_hash, series_key(PROFILE, "nccl-tests", 4)).total == len(HEALTHY) + 1


def test_no_store_keeps_nothing(node: list[str], tmp_path: Path) -> None:
    assert status_of([*node, *sample("nt_ar_1.txt"), "--no-store", "--output", str(tmp_path / "a.txt")]) == 0
    with History.open(str(tmp_path / "history.db")) as history:
        assert history.admissions() == ()


def test_no_store_makes_no_history_either(
    node: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("RANKMUSTER_HISTORY", str(tmp_path / "nowhere" / "history.db"))
    without = [word for word in node if word not in ("--history", str(tmp_path / "history.db"))]
    assert status_of([*without, *sample("nt_ar_1.txt"), "--no-store", "--output", str(tmp_path / "a")]) == 2
    assert not (tmp_path / "nowhere").exists()
    assert "compared with nothing: there is no history at" in capfd.readouterr().err


WITHOUT = """
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sqlalchemy", "alembic"):
            raise ImportError(f"No module named {name}")
sys.meta_path.insert(0, Missing())
from rankmuster.cli.main import status_of
sys.exit(status_of(sys.argv[1:]))
"""


def test_without_the_packages_of_a_history_a_node_can_still_be_admitted(tmp_path: Path) -> None:
    profile = tmp_path / "profile.yaml"
    profile.write_text(profile_yaml(PROFILE))
    files = [*sample("nt_ar_1.txt"), *sample("smi_q.txt"), "--profile", str(profile)]
    command = [sys.executable, "-c", WITHOUT, "admit", *files]
    environ = {name: value for name, value in os.environ.items() if name != "RANKMUSTER_HISTORY"}
    ran = subprocess.run([*command, "--no-store"], capture_output=True, text=True, env=environ, timeout=60)
    assert (ran.returncode, ran.stdout[:12]) == (2, "PROVISIONAL:"), ran.stderr
    asked = subprocess.run(command, capture_output=True, text=True, env=environ, timeout=60)
    assert asked.returncode == 3
    assert "pip install 'rankmuster[history]'" in asked.stderr
    assert "--no-store" in asked.stderr


def test_a_history_that_is_named_and_not_there_is_said(
    node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    gone = [*node, *sample("nt_ar_1.txt"), "--no-store", "--history", str(tmp_path / "gone.db")]
    assert status_of(gone) == 3
    assert "gone.db" in capfd.readouterr().err


def test_json_verifies_and_a_changed_one_does_not(
    node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = tmp_path / "answer.json"
    assert status_of([*node, *sample("ar_contended.txt"), "--format", "json", "--output", str(answer)]) == 1
    assert status_of(["admit", "verify", str(answer)]) == 0
    assert "fail of node7, as it was written" in capfd.readouterr().out
    answer.write_text(answer.read_text().replace('"decision": "fail"', '"decision": "pass"'))
    assert status_of(["admit", "verify", str(answer)]) == 1
    assert "not as it was written" in capfd.readouterr().err
    whole = answer.read_text()
    for none in (
        "{}",
        whole[: len(whole) // 2],
        f"[{whole}]",
        whole.replace("admission/1", "admission/9"),
        '{"a": NaN}',
    ):
        answer.write_text(none)
        assert status_of(["admit", "verify", str(answer)]) == 3
    assert status_of(["admit", "verify", str(tmp_path / "gone.json")]) == 3


def test_junit_and_html_are_written_whole(node: list[str], tmp_path: Path) -> None:
    page, tests = tmp_path / "page.html", tmp_path / "junit.xml"
    assert status_of([*node, *sample("ar_ll.txt"), "--format", "html", "--output", str(page), "--no-store"]) == 1
    assert status_of([*node, *sample("ar_ll.txt"), "--format", "junit", "--output", str(tests), "--no-store"]) == 1
    assert page.read_text().startswith("<!doctype html>")
    assert page.read_text().count("<figure>") == 2
    assert int(ET.parse(tests).getroot().get("failures", "0")) > 0  # our own text


def test_metrics_for_the_textfile_collector(node: list[str], tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client")
    metrics, page = tmp_path / "admission.prom", str(tmp_path / "a.txt")
    assert status_of([*node, *sample("nt_ar_1.txt"), "--metrics", str(metrics), "--output", page]) == 0
    assert "rankmuster_" in metrics.read_text()


def test_a_database_of_a_newer_version_is_refused_and_left_alone(
    node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "history.db"
    with sqlite3.connect(path) as database:
        database.execute("update rankmuster_version set version_num = '9999'")
    database.close()
    assert status_of([*node, *sample("nt_ar_1.txt")]) == 3
    assert "newer" in capfd.readouterr().err
    with sqlite3.connect(path) as database:
        assert database.execute("select count(*) from rankmuster_admission").fetchone() == (0,)
    database.close()


def test_a_history_that_is_no_database_is_refused(
    node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "history.db").write_bytes(b"no database at all" * 100)
    assert status_of([*node, *sample("nt_ar_1.txt")]) == 3
    assert "history.db" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--profile", "no-such-profile"], "no-such-profile"),
        (["--env", "NCCL_PROTO"], "NAME=VALUE"),
        (["--kernel-log", "/nowhere/dmesg"], "no such file"),
        (["--from", "/nowhere/at.all"], "is not there"),
        (["--gpus", "1"], "gpus"),
        (["--dcgm-level", "9"], "dcgm-level"),
    ],
)
def test_bad_usage(arguments: list[str], words: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert status_of(["admit", "--history", str(tmp_path / "h.db"), *arguments]) == 3
    assert words in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"hello world\n", b"\0" * 8192, b"PK\3\4 no zip", b'{"a": 1}'])
def test_what_is_given_as_the_kernel_log_has_to_be_one(
    content: bytes, node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "given.log").write_bytes(content)
    assert status_of([*node, *sample("nt_ar_1.txt"), "--kernel-log", str(tmp_path / "given.log")]) == 3
    assert "journalctl -k" in capfd.readouterr().err


def test_a_packed_kernel_log_is_read(node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    words = (
        "[    0.000000] Linux version 6.8.0\n"
        "[ 1000.000000] NVRM: Xid (PCI:0000:00:06): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )
    (tmp_path / "dmesg.gz").write_bytes(gzip.compress(words.encode()))
    assert status_of([*node, *sample("nt_ar_1.txt"), "--kernel-log", str(tmp_path / "dmesg.gz")]) == 1
    assert "Xid 79" in capfd.readouterr().out


def test_a_machine_without_gpus_is_an_error_and_no_benchmark_is_started(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has GPUs")
    assert status_of(["admit", "--history", str(tmp_path / "h.db"), "--dcgm-level", "0"]) == 3
    out = capfd.readouterr().out
    assert out.startswith("ERROR: ")
    assert "no NVIDIA GPU on this machine" in out
    assert "0 runs" in out


def test_pairs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "pairs.jsonl"
    lines = [("a", "b", 48.0), ("c", "d", 24.0), ("a", "c", 48.1), ("b", "d", 24.2)]
    results.write_text(
        "".join(
            json.dumps(
                {"schema": "rankmuster.pair/1", "first": a, "second": b, "rail": None, "busbw": value, "reason": ""}
            )
            + "\n"
            for a, b, value in lines
        )
    )
    assert status_of(["admit", "pairs", str(results), "--floor", "45"]) == 1
    assert capfd.readouterr().out.startswith("FAIL: a and 3 more: d: 24 GB/s")
    results.write_text(results.read_text().splitlines()[0] + "\n")
    assert status_of(["admit", "pairs", str(results), "--floor", "45"]) == 0
    assert status_of(["admit", "pairs", str(results)]) == 2
    results.write_text("{cut")
    assert status_of(["admit", "pairs", str(results)]) == 3
    assert "line 1" in capfd.readouterr().err


def test_a_log_with_connections_that_timed_out_refuses_fast_pairs(tmp_path: Path) -> None:
    results, log = tmp_path / "pairs.jsonl", tmp_path / "nccl.log"
    result = {"schema": "rankmuster.pair/1", "first": "a", "second": "b", "rail": None, "busbw": 48.0, "reason": ""}
    results.write_text(json.dumps(result) + "\n")
    log.write_text(
        "a:1:2 [0] NCCL INFO socketPollConnect: connect to 10.0.0.9<4791> returned Connection timed out, retrying "
        "(2/34) after sleep for 100 msec\n"
    )
    quiet = ["admit", "pairs", str(results), "--floor", "45", "--output", str(tmp_path / "a")]
    assert status_of(quiet) == 0
    assert status_of([*quiet, "--nccl-log", str(log)]) == 1


def test_every_option_is_in_the_document() -> None:
    document = (ROOT / "docs" / "admission.md").read_text()
    group = get_command(app)
    commands = [group, *group.commands.values()]  # type: ignore[attr-defined]
    options = {each for command in commands for p in command.params for each in (*p.opts, *p.secondary_opts)}
    long = {option for option in options if option.startswith("--") and option != "--help"}
    missing = [option for option in sorted(long) if not re.search(rf"(?<![\w-]){option}(?![\w-])", document)]
    assert missing == []
    told = set(re.findall(r"`(--[a-z][a-z-]+)", document))
    assert told <= long


def test_a_line_of_pairs_without_a_node_says_what_is_missing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "pairs.jsonl").write_text('{"schema": "rankmuster.pair/1"}\n')
    assert status_of(["admit", "pairs", str(tmp_path / "pairs.jsonl")]) == 3
    assert "line 1: no result of a pair (it has no first)" in capfd.readouterr().err


def test_a_history_that_was_changed_by_hand_decides_nothing(
    node: list[str], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with sqlite3.connect(tmp_path / "history.db") as database:
        database.execute("update rankmuster_result set busbw = 3 * busbw")
    database.close()
    assert status_of([*node, *sample("nt_ar_1.txt"), "--no-store"]) == 3
    told = capfd.readouterr()
    assert "in the history is not as it was stored" in told.err
    assert told.out == ""
