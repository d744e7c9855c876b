"""numpy is loaded with one thread, and nobody else hears of it."""

from __future__ import annotations

import os
import subprocess
import sys

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
