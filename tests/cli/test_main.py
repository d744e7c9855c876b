"""Exit statuses, messages and streams of the command line, whatever the command."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rankmuster import __version__

Run = Callable[..., "subprocess.CompletedProcess[str]"]

WITH_A_FAULTY_COMMAND = """
import sys
from rankmuster.cli import main
from rankmuster.cli.status import doing

@main.app.command("faulty")
def faulty(how: str, debug: bool = False) -> int:
    with doing("counting ranks"):
        raise {"bug": ValueError("first line\\nsecond line"), "interrupt": KeyboardInterrupt()}[how]

main.run()
"""


def faulty(*arguments: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """The program with one more command, which has a fault of its own."""
    return subprocess.run(
        [sys.executable, "-c", WITH_A_FAULTY_COMMAND, "faulty", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **(env or {})},
    )


def test_version(command: Run) -> None:
    done = command("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"rankmuster {__version__}\n", "")


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["diagnose", "--help"], ["explain", "-h"]])
def test_help_goes_to_standard_output(command: Run, arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 0
    assert "Usage: rankmuster" in done.stdout
    assert done.stderr == ""


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--no-such-option"],
        ["no-such-command"],
        ["diagnose"],
        ["diagnose", "--no-such-option", "."],
        ["diagnose", ".", "--format", "yaml"],
        ["diagnose", ".", "--width", "wide"],
        ["diagnose", ".", "--width", "1"],
        ["diagnose", ".", "too", "many"],
        ["diagnose", ".", "--output"],
        ["explain", "too", "many"],
    ],
)
def test_bad_usage_is_3_and_never_2(command: Run, arguments: list[str]) -> None:
    done = command(*arguments)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "Usage:" in done.stderr or "Error:" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_internal_error_is_one_line_that_says_what_was_being_done() -> None:
    done = faulty("bug")
    assert done.returncode == 3
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for part in ("internal error while counting ranks", "ValueError: first line second line", "a bug in rankmuster"):
        assert part in done.stderr


@pytest.mark.parametrize(("arguments", "env"), [(["--debug"], {}), ([], {"RANKMUSTER_DEBUG": "1"})])
def test_debug_shows_the_traceback(arguments: list[str], env: dict[str, str]) -> None:
    done = faulty("bug", *arguments, env=env)
    assert done.returncode == 3
    assert "Traceback (most recent call last)" in done.stderr


def test_ctrl_c_is_quiet_and_130() -> None:
    done = faulty("interrupt")
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize("arguments", [["explain"], ["--help"], ["explain", "blind"], ["--version"]])
def test_a_reader_that_left_is_no_fault(program: Path, arguments: list[str]) -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        done = subprocess.run([program, *arguments], stdout=write, stderr=subprocess.PIPE, text=True, timeout=60)
    finally:
        os.close(write)
    assert done.stderr == ""
    assert done.returncode not in (1, 2)  # these mean a verdict


def test_a_closed_standard_output_is_no_fault(program: Path) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"'{program}' explain drift >&-"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("arguments", [["explain"], ["--help"]])
def test_a_full_disk_is_told(program: Path, arguments: list[str]) -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 3
    assert "No space left" in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_ascii_terminal_gets_its_text(command: Run) -> None:
    done = command("explain", "all_entered_none_left", env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"})
    assert done.returncode == 0
    assert "transport_stall/all_entered_none_left" in done.stdout


def test_help_needs_nothing_heavy() -> None:
    """What makes a start slow is imported only by the command that needs it."""
    listing = "import sys; import rankmuster.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)
    assert not {"numpy", "pydantic", "rich", "zstandard", "prometheus_client"} & set(done.stdout.split())
