"""`rankmuster top`, run as an operator runs it: over a real state file, in a pipe and in a real pseudo-terminal."""

from __future__ import annotations

import contextlib
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rankmuster.model.fault import Progress
from rankmuster.watch.export.state_file import StateFile
from rankmuster.watch.snapshot import InstanceView, RankView, Snapshot, WatcherView

RUNS = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may run where a shell ignores it
from rankmuster.cli import main
from rankmuster.cli.top import top
main.app.command("top")(top)
main.run()
"""


def state(folder: Path, *states: Progress, age: float = 1.0, **changes: Any) -> StateFile:
    now = time.time()
    instances = tuple(
        InstanceView(f"llm-{n}", one, now - 13, f"it is {one.value}", ranks=(RankView(0, 7, 0, "spinning"),))
        for n, one in enumerate(states)
    )
    file = StateFile(folder)
    file.write(replace(Snapshot("node-7", now - age, WatcherView("0.1.0", now - 100, 5.0), instances), **changes))
    return file


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    dropped = ("NO_COLOR", "COLUMNS", "LINES", "XDG_STATE_HOME")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {
        **kept,
        "XDG_RUNTIME_DIR": str(tmp_path / "runtime"),
        "HOME": str(tmp_path),
        "TERM": "xterm-256color",
        **more,
    }


def top(tmp_path: Path, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUNS, "top", *arguments],
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        env=environment(tmp_path, **more),
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize(
    ("states", "age", "status"),
    [
        ((Progress.ADVANCING, Progress.IDLE), 1.0, 0),
        ((Progress.ADVANCING, Progress.STOPPED), 1.0, 1),
        ((Progress.UNKNOWN,), 1.0, 2),
        ((Progress.STOPPED,), 100.0, 2),
        ((), 1.0, 2),
    ],
)
def test_one_frame_and_what_it_comes_to(tmp_path: Path, states: tuple[Progress, ...], age: float, status: int) -> None:
    state(tmp_path / "s", *states, age=age)
    done = top(tmp_path, "--once", "--state", str(tmp_path / "s"))
    assert (done.returncode, done.stderr) == (status, "")
    for number, one in enumerate(states):
        assert f"llm-{number}" in done.stdout
        assert f"it is {one.value}" in done.stdout
    assert ("STALE" in done.stdout) is (age > 15)
    assert "\x1b" not in done.stdout
    assert all(line == line.rstrip() and len(line) <= 100 for line in done.stdout.splitlines())


def test_without_a_terminal_it_is_one_frame_from_where_the_watch_writes_by_default(tmp_path: Path) -> None:
    if Path("/run/rankmuster/state.json").exists():
        pytest.skip("a watch runs on this machine")
    state(tmp_path / "runtime" / "rankmuster", Progress.IDLE, Progress.STOPPED)
    done = top(tmp_path, COLUMNS="80")
    assert done.returncode == 1
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
    only = top(tmp_path, "--instance", "llm-0")
    assert only.returncode == 0
    assert "llm-1" not in only.stdout


@pytest.mark.parametrize("content", [None, b"<html>", b'{"schema": "rankmuster.watch/9"}'])
def test_no_state_is_no_answer(tmp_path: Path, content: bytes | None) -> None:
    if content is not None:
        (tmp_path / "state.json").write_bytes(content)
    done = top(tmp_path, "--once", "--state", str(tmp_path))
    assert (done.returncode, done.stdout) == (3, "")
    assert str(tmp_path / "state.json") in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_instance_that_is_not_there_is_no_answer(tmp_path: Path) -> None:
    state(tmp_path / "s", Progress.IDLE)
    done = top(tmp_path, "--once", "--state", str(tmp_path / "s"), "--instance", "llm-9")
    assert done.returncode == 3
    assert "no instance 'llm-9'; there is llm-0" in done.stderr


class Terminal:
    """A program in a pseudo-terminal of its own."""

    def __init__(self, tmp_path: Path, *arguments: str, **more: str) -> None:
        self.ours, theirs = pty.openpty()
        termios.tcsetwinsize(self.ours, (40, 100)) if hasattr(termios, "tcsetwinsize") else None
        self.before = termios.tcgetattr(theirs)
        self.process = subprocess.Popen(
            [sys.executable, "-c", RUNS, "top", "--interval", "0.2", *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=environment(tmp_path, **more),
            start_new_session=True,
        )
        self.theirs = theirs
        self.seen = ""

    def wait_for(self, words: str, seconds: float = 20.0) -> None:
        end = time.monotonic() + seconds
        while words not in self.seen:
            assert time.monotonic() < end, f"{words!r} did not come: {self.seen[-2000:]!r}"
            self._read(0.1)

    def _read(self, seconds: float) -> None:
        if select.select([self.ours], [], [], seconds)[0]:
            with contextlib.suppress(OSError):
                self.seen += os.read(self.ours, 65536).decode("utf-8", "replace")

    def ended(self) -> int:
        end = time.monotonic() + 20
        while self.process.poll() is None:
            assert time.monotonic() < end, "it did not end"
            self._read(0.05)
        self._read(0.1)
        assert termios.tcgetattr(self.theirs) == self.before
        assert "\x1b[?1049l" in self.seen  # back from the second screen
        assert "\x1b[?25h" in self.seen  # with a cursor
        assert "Traceback" not in self.seen
        return self.process.returncode


@contextmanager
def terminal(tmp_path: Path, *arguments: str, **more: str) -> Iterator[Terminal]:
    one = Terminal(tmp_path, *arguments, **more)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.wait()
        os.close(one.ours)
        os.close(one.theirs)


ENDS: list[Callable[[Terminal], object]] = [
    lambda one: os.write(one.ours, b"q"),
    lambda one: one.process.send_signal(signal.SIGINT),
    lambda one: one.process.send_signal(signal.SIGTERM),
]


@pytest.mark.parametrize("end", ENDS, ids=["q", "ctrl-c", "sigterm"])
def test_live_it_follows_the_state_and_leaves_the_terminal_as_it_was(
    tmp_path: Path, end: Callable[[Terminal], object]
) -> None:
    state(tmp_path / "s", Progress.ADVANCING)
    with terminal(tmp_path, "--state", str(tmp_path / "s")) as one:
        one.wait_for("it is advancing")
        state(tmp_path / "s", Progress.STOPPED)
        one.wait_for("it is stopped")
        end(one)
        assert one.ended() == 0


def test_live_it_waits_for_a_watch_and_shows_that_one_went(tmp_path: Path) -> None:
    with terminal(tmp_path, "--state", str(tmp_path / "s"), "--no-color") as one:
        one.wait_for("waiting for it")
        file = state(tmp_path / "s", Progress.IDLE)
        one.wait_for("it is idle")
        (tmp_path / "s" / "state.json").write_text("<html>")
        one.wait_for("JSON")
        file.remove()
        os.write(one.ours, b"xq")
        assert one.ended() == 0
        assert "\x1b[1;35m" not in one.seen


def test_a_dumb_terminal_gets_one_frame(tmp_path: Path) -> None:
    state(tmp_path / "s", Progress.IDLE)
    with terminal(tmp_path, "--state", str(tmp_path / "s"), TERM="dumb") as one:
        one.wait_for("it is idle")
        one.process.wait(20)
        assert "\x1b[?1049h" not in one.seen
