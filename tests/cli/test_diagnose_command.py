"""`rankmuster diagnose`: statuses, formats, and where the text goes. What is right to say is tested elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_fault_is_1_and_named(command: Run, examples: Path) -> None:
    done = command("diagnose", examples / "rank-stops-calling")
    assert done.returncode == 1
    assert "missing_enter" in done.stdout
    assert done.stderr == ""


def test_a_healthy_instance_is_0(command: Run, examples: Path) -> None:
    done = command("diagnose", examples / "tp2-idle", "--format", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["class"] == "healthy"


def test_what_nobody_could_see_is_2(command: Run, examples: Path, tmp_path: Path) -> None:
    only = tmp_path / "only-instance"
    only.mkdir()
    shutil.copy(examples / "rank-stops-calling" / "instance.json", only)
    done = command("diagnose", only, "--format", "json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["class"] in ("inconclusive", "blind")


def test_a_path_that_is_not_there_is_3(command: Run, tmp_path: Path) -> None:
    done = command("diagnose", tmp_path / "nothing-here")
    assert (done.returncode, done.stdout) == (3, "")
    assert "nothing-here" in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_variable_that_is_not_set_is_3_and_not_this_folder(command: Run) -> None:
    done = command("diagnose", "")
    assert (done.returncode, done.stdout) == (3, "")
    assert "PATH is empty" in done.stderr


def test_a_single_file_of_no_use_is_3_with_the_reason(command: Run, tmp_path: Path) -> None:
    archive = tmp_path / "evidence.zip"
    archive.write_bytes(b"PK\x03\x04" + bytes(100))
    done = command("diagnose", archive)
    assert (done.returncode, done.stdout) == (3, "")
    assert "unpack it first" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_empty_folder_is_3(command: Run, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = command("diagnose", tmp_path / "empty")
    assert (done.returncode, done.stdout) == (3, "")
    assert "empty" in done.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_no_permission_is_3(command: Run, tmp_path: Path) -> None:
    locked = tmp_path / "locked"
    locked.mkdir()
    locked.chmod(0)
    try:
        done = command("diagnose", locked)
    finally:
        locked.chmod(0o700)
    assert done.returncode == 3
    assert "locked" in done.stderr


def test_json_is_the_schema(command: Run, examples: Path) -> None:
    done = command("diagnose", examples / "rank-stops-calling", "--format", "json")
    assert json.loads(done.stdout)["schema"] == "rankmuster.verdict/1"


def test_the_same_evidence_gives_the_same_bytes(command: Run, examples: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "copy"
    shutil.copytree(examples / "rank-stops-calling", elsewhere)
    first = command("diagnose", examples / "rank-stops-calling", "--format", "json")
    second = command("diagnose", elsewhere, "--format", "json", env={"PYTHONHASHSEED": "7", "TZ": "Asia/Tokyo"})
    assert first.stdout == second.stdout


@pytest.mark.parametrize("form", ["html", "perfetto"])
def test_output_writes_a_file_and_says_where_and_what(command: Run, examples: Path, tmp_path: Path, form: str) -> None:
    target = tmp_path / f"report.{form}"
    done = command("diagnose", examples / "rank-stops-calling", "--format", form, "--output", target)
    assert (done.returncode, done.stdout) == (1, "")
    where, what = done.stderr.splitlines()
    assert str(target) in where
    assert what.startswith("verdict: collective_desync/missing_enter")
    assert (
        target.read_text(encoding="utf-8")
        == command("diagnose", examples / "rank-stops-calling", "--format", form).stdout
    )


def test_perfetto_is_json(command: Run, examples: Path) -> None:
    assert json.loads(command("diagnose", examples / "rank-stops-calling", "--format", "perfetto").stdout)


def test_output_that_cannot_be_written_is_3(command: Run, examples: Path, tmp_path: Path) -> None:
    done = command("diagnose", examples / "tp2-idle", "--output", tmp_path / "missing" / "report.txt")
    assert (done.returncode, done.stdout) == (3, "")
    assert "cannot write" in done.stderr


def test_a_pipe_and_a_file_get_no_colours(command: Run, examples: Path, tmp_path: Path) -> None:
    done = command("diagnose", examples / "rank-stops-calling", env={"TERM": "xterm-256color"})
    assert "\x1b" not in done.stdout
    command("diagnose", examples / "rank-stops-calling", "--output", tmp_path / "report.txt", env={"TERM": "xterm"})
    assert "\x1b" not in (tmp_path / "report.txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("extra", [[], ["--no-color"]])
def test_a_screen_gets_colours_unless_told_not_to(program: Path, examples: Path, extra: list[str]) -> None:
    text = on_a_screen([str(program), "diagnose", str(examples / "rank-stops-calling"), *extra])
    assert ("\x1b[" in text) == (not extra)


def test_the_width_holds(command: Run, examples: Path) -> None:
    narrow = command("diagnose", examples / "rank-stops-calling", "--width", "72").stdout
    # The first line is whole at any width: `head -1` must give the answer.
    assert max(map(len, narrow.splitlines()[1:])) <= 72


def test_a_reader_that_left_does_not_change_the_verdict(program: Path, examples: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run(
            [program, "diagnose", examples / "tp2-idle"], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60
        )
    finally:
        os.close(write)
    assert (done.returncode, done.stderr) == (0, "")


def on_a_screen(command: list[str]) -> str:
    """What the command writes to a pseudo-terminal."""
    master, slave = os.openpty()
    env = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
    process = subprocess.Popen(command, stdout=slave, stderr=slave, env={**env, "TERM": "xterm-256color"})
    os.close(slave)
    got = b""
    try:
        while chunk := os.read(master, 65536):
            got += chunk
    except OSError:  # Linux ends a pseudo-terminal whose other side closed with EIO
        pass
    finally:
        os.close(master)
    process.wait(60)
    return got.decode("utf-8", "replace")
