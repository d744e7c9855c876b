"""The ranks of one node as processes of this one: started, listened to, and ended whatever they do.

Each rank speaks through a pipe of its own and is the leader of its own process group; what it and its libraries print
goes to a file, of which the end is told when it fails. None of them outlives this process: they end when their standard
input closes.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import rankmuster
from rankmuster.bench.builtin.frames import Listener, Message
from rankmuster.bench.builtin.orders import Orders
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.node.children import let_go, ready_bytes

LAST_WORDS = 2_000
"""Bytes of a failed rank's output that are looked at; the last three lines with text are told."""

_PROGRAM = (
    "import sys, importlib.util as u; folder = sys.argv.pop(1); "
    "spec = u.spec_from_file_location('rankmuster', folder + '/__init__.py', submodule_search_locations=[folder]); "
    "module = u.module_from_spec(spec); sys.modules['rankmuster'] = module; spec.loader.exec_module(module); "
    "from rankmuster.bench.builtin.worker import main; main()"
)
"""This very package, whatever the interpreter has installed; and nothing else from beside it, which may be libraries
of another Python's."""


def program(python: str | None) -> list[str]:
    """The beginning of a rank's command line."""
    return [python or sys.executable, "-c", _PROGRAM, str(Path(rankmuster.__file__).parent)]


@dataclass
class _Rank:
    process: subprocess.Popen[bytes]
    pipe: int
    listener: Listener
    open: bool = True


class LocalRanks:
    """Use as a context manager; leaving it kills what still runs. Raises OSError where a process cannot be started."""

    def __init__(self, orders: Orders, ranks: int, *, python: str | None, environment: Mapping[str, str], folder: Path):
        self._selector = selectors.DefaultSelector()
        self._ranks: list[_Rank] = []
        self._folder = folder
        plain = replace(orders, store=None, logs=None).arguments()
        self.command = (python or sys.executable, "-m", "rankmuster.bench.builtin", *plain)  # as it would be by hand
        try:
            for rank in range(ranks):
                self._start(replace(orders, rank=rank, ranks=ranks, tied=True), python, environment)
        except BaseException:
            self.end()
            raise

    def __enter__(self) -> LocalRanks:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    @property
    def pids(self) -> tuple[int, ...]:
        """Of the ranks, in their order."""
        return tuple(rank.process.pid for rank in self._ranks)

    @property
    def over(self) -> bool:
        """Whether every rank has ended and all of its words are in."""
        return not any(rank.open for rank in self._ranks) and all(
            rank.process.poll() is not None for rank in self._ranks
        )

    def heard(self, deadline: Deadline) -> list[Message]:
        """What ranks have said, as soon as there is anything; empty at the deadline."""
        found: list[Message] = []
        for key, _ in self._selector.select(deadline.remaining()):
            rank = self._ranks[key.data]
            data = ready_bytes(rank.pipe)
            if data is None:
                continue
            if not data:
                self._selector.unregister(rank.pipe)
                rank.open = False
            found += rank.listener.feed(data, ended=not data)
        return found

    def ended(self) -> dict[int, int]:
        """Rank -> exit status of those that have ended; below 0: by that signal."""
        codes = {number: rank.process.poll() for number, rank in enumerate(self._ranks)}
        return {number: code for number, code in codes.items() if code is not None}

    def stopped(self) -> dict[int, str]:
        """Ranks that the kernel does not let run, by /proc: they cannot come, whoever waits for them."""
        found = {}
        for number, rank in enumerate(self._ranks):
            with contextlib.suppress(OSError, IndexError):
                stat = Path(f"/proc/{rank.process.pid}/stat").read_text(encoding="utf-8", errors="replace")
                state = stat.rpartition(") ")[2][:1]
                if state in "tT":
                    found[number] = "is stopped (by a signal or a debugger)"
                elif state == "D":
                    found[number] = "is in uninterruptible sleep (in a driver or a file system)"
        return found

    def last_words(self, rank: int) -> str:
        """The end of what a rank printed, on one line."""
        try:
            with self._output(rank).open("rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(file.tell() - LAST_WORDS, 0))
                lines = [line.strip() for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
        except OSError:
            return ""
        return " | ".join(lines[-3:])

    def end(self) -> None:
        """Kills every rank with all of its group. What cannot die is left behind."""
        for rank in self._ranks:
            if rank.process.poll() is None:
                with contextlib.suppress(OSError):
                    os.killpg(rank.process.pid, signal.SIGKILL)
        for rank in self._ranks:
            let_go(rank.process)
            with contextlib.suppress(OSError):
                os.close(rank.pipe)
        self._selector.close()
        self._ranks = []

    def _output(self, rank: int) -> Path:
        return self._folder / f"output_{rank}.txt"

    def _start(self, orders: Orders, python: str | None, environment: Mapping[str, str]) -> None:
        reading, writing = os.pipe()
        number = len(self._ranks)
        try:
            with self._output(number).open("wb") as output:
                process = subprocess.Popen(  # noqa: S603 - our own program
                    [*program(python), *replace(orders, results=writing).arguments()],
                    stdin=subprocess.PIPE,
                    stdout=output,
                    stderr=output,
                    env=dict(environment),
                    cwd=self._folder,
                    pass_fds=(writing,),
                    start_new_session=True,
                )
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)
        os.set_blocking(reading, False)
        self._selector.register(reading, selectors.EVENT_READ, number)
        self._ranks.append(_Rank(process, reading, Listener()))
