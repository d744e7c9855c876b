"""The parent's end of the NVML child: starts it, listens with a time limit, and leaves it behind where it hangs."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find.seen import MARKERS
from rankmuster.collect.node.children import let_go, ready_bytes
from rankmuster.collect.own_path import FLAGS, own_path

MAX_LINE = 1 << 20
"""Bytes of one line of the child: a sample has 1 KB, and a GPU has at most some hundred processes."""

_PROGRAM = (
    "import json, sys; options = json.loads(sys.argv[1]); sys.path[:] = options.pop('path'); "
    "from rankmuster.collect.node.nvml_child import main; main(options)"
)


@dataclass(frozen=True, slots=True)
class Unusable:
    """NVML cannot be used. `absent`: there is no NVIDIA driver here at all."""

    reason: str
    absent: bool


class NvmlSession:
    """A running child; use as a context manager.

    Raises OSError from the constructor when no child can be started.
    """

    def __init__(self, *, seconds: float = 0.0, interval: float = 0.5, mode: str = "watch", xids: bool = False) -> None:
        options = {
            "seconds": seconds,
            "interval": interval,
            "mode": mode,
            "xids": xids,
            "path": own_path(),
        }
        self._process = subprocess.Popen(  # noqa: S603 - our own program
            [sys.executable, *FLAGS, "-c", _PROGRAM, json.dumps(options)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={name: value for name, value in os.environ.items() if name not in MARKERS},
        )
        assert self._process.stdout is not None
        assert self._process.stdin is not None
        self._input = self._process.stdin.fileno()
        os.set_blocking(self._input, False)
        self._fd = self._process.stdout.fileno()
        os.set_blocking(self._fd, False)
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._fd, selectors.EVENT_READ)
        self._rest = b""
        self.ended = False

    def __enter__(self) -> NvmlSession:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """The child's, an ordinary process: `ps -o time,rss -p PID` tells what it costs."""
        return self._process.pid

    @property
    def gone(self) -> bool:
        """Whether the child has ended; asked again after `close`, whether one left behind has died since."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Ends the child at once, so that a thread that waits in `lines` comes back; `close` is still to be called."""
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def ask(self) -> None:
        """Asks a child of mode "rounds" for one; what it has not read of earlier words need not be said again."""
        try:
            os.write(self._input, b"s")
        except BlockingIOError:
            pass
        except OSError:
            self.ended = True

    def lines(self, deadline: Deadline) -> list[Mapping[str, Any]]:
        """What the child has said, as soon as there is anything; empty at the deadline or after its end (`ended`)."""
        while not self.ended:
            found = self._split()
            if found:
                return found
            self._selector.select(deadline.remaining())
            data = ready_bytes(self._fd)
            if data is None:
                if deadline.passed:
                    return []
                continue
            if not data or len(self._rest) > MAX_LINE:
                self.ended = True
            self._rest += data
        return self._split()

    def _split(self) -> list[Mapping[str, Any]]:
        *whole, self._rest = self._rest.split(b"\n")
        found: list[Mapping[str, Any]] = []
        for line in whole:
            try:
                said = json.loads(line)
            except ValueError:
                continue  # the library itself may print
            if isinstance(said, dict):
                found.append(said)
        return found

    def close(self) -> str | None:
        """Ends the child; how it ended where that was of its own and not well ("was killed by signal 11")."""
        self._selector.close()
        code = self._process.poll() if not self.ended else self._code()
        gone = let_go(self._process)
        if not gone:
            return "does not die: it is in uninterruptible sleep, and was left behind"
        if code is not None and code < 0:
            return f"was killed by signal {-code}"
        return None if code in (None, 0) else f"ended with status {code}"

    def _code(self) -> int | None:
        try:
            return self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            return None


@dataclass(frozen=True, slots=True)
class Listed:
    """`gpus`: (NVML index, UUID) of every GPU, by index; UUID empty where it did not tell. `processes`: host pid ->
    those that it computes on."""

    gpus: tuple[tuple[int, str], ...]
    processes: Mapping[int, tuple[tuple[int, str], ...]]


def listed(timeout_s: float) -> Listed | None:
    """The node's GPUs and who computes on them; None when NVML cannot say.

    Never blocks longer than `timeout_s` (and a moment to end the child). GPUs that did not answer in time are left out.
    """
    deadline = Deadline.after(timeout_s)
    gpus: dict[int, str] = {}
    found: dict[int, list[tuple[int, str]]] = {}
    answered = False
    try:
        session = NvmlSession(seconds=timeout_s + 1.0, mode="processes")
    except OSError:
        return None
    with session:
        while not deadline.passed:
            lines = session.lines(deadline)
            for line in lines:
                kind = line.get("kind")
                if kind == "unusable":
                    return None
                answered = answered or kind == "driver"
                if kind in ("gpu", "processes"):
                    gpus[int(line["gpu"])] = str(line.get("uuid") or "")
                if kind == "processes" and isinstance(line.get("pids"), list):
                    for pid in line["pids"]:
                        found.setdefault(int(pid), []).append((int(line["gpu"]), str(line.get("uuid") or "")))
            if session.ended or any(line.get("kind") == "end" for line in lines):
                break
    if not answered:
        return None
    return Listed(tuple(sorted(gpus.items())), {pid: tuple(sorted(those)) for pid, those in found.items()})
