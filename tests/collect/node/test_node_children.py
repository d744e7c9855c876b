"""Programs that hang, crash or never stop talking cost their own answer, and never the collector's time."""

from __future__ import annotations

import os
import sys
import time

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import run


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_output_errors_and_status():
    ran = run(python("import sys; print('yes'); print('no', file=sys.stderr); sys.exit(3)"), Deadline.after(20))
    assert (ran.output, ran.errors, ran.code, ran.well) == (b"yes\n", "no\n", 3, False)
    assert ran.story == "ended with status 3 (no)"


def test_a_program_that_is_not_there():
    ran = run(("/nonexistent/program",), Deadline.after(5))
    assert ran.code is None
    assert "could not be started (No such file or directory)" in ran.story


@pytest.mark.parametrize(
    "code",
    [
        "import time; time.sleep(60)",
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)",
        "import os, time; os.close(1); os.close(2); time.sleep(60)",
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])",
    ],
    ids=["sleeps", "ignores SIGTERM", "closes its output", "leaves a child with its output"],
)
def test_what_does_not_end_is_ended_at_the_deadline(code):
    began = time.monotonic()
    ran = run(python(code), Deadline.after(0.6))
    assert time.monotonic() - began < 5
    assert ran.timed_out


def test_endless_output_is_cut():
    ran = run(("yes",), Deadline.after(20), max_bytes=10_000)
    assert ran.cut
    assert len(ran.output) == 10_000


def test_no_descriptor_is_left_open():
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        run(("true",), Deadline.after(10))
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_language_of_the_machine_does_not_matter(monkeypatch):
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    assert run(("sh", "-c", "echo $LC_ALL"), Deadline.after(10)).output == b"C\n"
