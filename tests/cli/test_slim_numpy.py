"""numpy is loaded with one thread, and nobody else hears of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from rankmuster.cli.slim_numpy import load_numpy
load_numpy()
import numpy
tasks = len(os.listdir("/proc/self/task"))
print(tasks, os.environ.get("OPENBLAS_NUM_THREADS"))
"""


@pytest.mark.parametrize(("given", "left"), [(None, "None"), ("2", "2")])
def test_one_thread_unless_the_user_says_otherwise(given: str | None, left: str) -> None:
    env = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env=env | ({"OPENBLAS_NUM_THREADS": given} if given else {}),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    tasks, said = done.stdout.split()
    assert said == left
    if given is None:
        assert tasks == "1"


COMMAND = """
import os, sys
from rankmuster.cli.commands import add_commands
from rankmuster.cli.main import app
from typer.main import get_command
sys.argv = ["rankmuster", *sys.argv[1:]]
add_commands(app, sys.argv[1:])
get_command(app).main(sys.argv[1:], standalone_mode=False)
print("TASKS", len(os.listdir("/proc/self/task")), file=sys.stderr)
"""

CASE = Path(__file__).parents[1] / "cases" / "rank-stops-calling" / "input.tar.zst"


@pytest.mark.parametrize(
    "words",
    [["flight"], ["flight", "merge"], ["flight", "summarize", "-o", "-"], ["diagnose", "--format", "json"]],
    ids=" ".join,
)
def test_no_command_that_reads_dumps_has_threads_left(words: list[str]) -> None:
    env = {key: value for key, value in os.environ.items() if key != "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", COMMAND, *words, str(CASE)], env=env, capture_output=True, check=True, timeout=60
    )
    assert b"TASKS 1" in done.stderr
