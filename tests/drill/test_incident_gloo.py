"""Whole incidents on one machine: real ranks, HAProxy, load, watch and runner, from the fault to a good token again.

Needs torch and haproxy, which the tests do without otherwise: `pip install '.[real]'`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from rankmuster.drill.__main__ import BAD_USAGE, main

needs_all = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or shutil.which("haproxy") is None,
    reason="torch or haproxy is not installed (pip install '.[real]', apt-get install haproxy)",
)


@needs_all
@pytest.mark.parametrize("fault", ["skip", "kill"])
def test_a_fault_is_told_saved_and_rebuilt_and_no_request_is_lost(fault: str, tmp_path: Path) -> None:
    output = tmp_path / "out"
    # Looks follow each other faster than usual, so that the test is short; the watch scales what it waits for with it.
    status = main(["incident", fault, "--ranks", "3", "--period", "2", "--clients", "4", "--output", str(output)])
    (line,) = (output / "results.jsonl").read_text().splitlines()
    result = json.loads(line)
    assert result["wrongs"] == []
    assert status == 0
    assert result["outcome"] == "recovered"
    assert result["evidence_first"] is True
    assert (result["lost"], result["after_stop"]) == (0, 0)
    assert result["requests"] > 20
    numbers = json.loads((output / "summary.json").read_text())
    assert numbers["right"] == numbers["runs"] == 1
    assert numbers["seconds"]["overhead"]["budget"] == 5.0


@needs_all
def test_a_drill_that_is_told_to_end_leaves_nothing_running(tmp_path: Path) -> None:
    output = tmp_path / "out"
    command = [sys.executable, "-m", "rankmuster.drill", "incident", "skip", "--ranks", "2", "--output", str(output)]
    drill = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        _until(lambda: len(_processes_of(output)) >= 6, "gateway, supervisor, watch, runner and ranks are there")
        drill.terminate()
        assert drill.wait(60) == 128 + signal.SIGTERM
        _until(lambda: not _processes_of(output), "all of them are gone")
    finally:
        drill.kill()
        drill.wait()


def _processes_of(folder: Path) -> list[str]:
    """Command lines of living processes that name the folder, but for the drill's own."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(folder) in line and "rankmuster.drill incident" not in line:
                found.append(line)
    return found


def _until(there: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 90.0
    while not there():
        assert time.monotonic() < end, f"it did not come about that {what}"
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["slow"], "slow is no fault of a served engine"),
        (["graph_stop"], "cannot be made with gloo"),
        (["skip", "--graph"], "only NCCL's collectives"),
        (["skip", "--ranks", "1"], "has nobody to wait for"),
        (["skip", "--culprit", "4"], "rank 4 is not in a job of 4 ranks"),
        (["skip", "--times", "0"], "--times and --clients are at least 1"),
        (["nothing"], "there is no fault named 'nothing'"),
        ([], "the following arguments are required: FAULT"),
    ],
)
def test_what_cannot_be_is_refused(
    arguments: list[str], says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main(["incident", *arguments, "--output", str(tmp_path / "out")])
    except SystemExit as ended:
        status = ended.code if isinstance(ended.code, int) else -1
    assert status == BAD_USAGE
    assert says in capsys.readouterr().err


def test_without_haproxy_nothing_is_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("RANKMUSTER_DRILL_HAPROXY", raising=False)
    assert main(["incident", "skip", "--output", str(tmp_path / "out")]) == BAD_USAGE
    assert "haproxy is not on the path" in capsys.readouterr().err
