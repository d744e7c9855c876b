"""A real `rankmuster watch` beside a job, and everything that it says, look by look."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from rankmuster.drill.launch import Launched
from rankmuster.drill.usage import Usage, usage_of

WATCH = (sys.executable, "-m", "rankmuster.cli.main", "watch")
LOG = "watch.log"
STATE = "state.json"

POLL_SECONDS = 0.05
"""Between two looks at the state file: little against the seconds that are measured, and less than the shortest period,
so that no state goes unseen."""
USAGE_SECONDS = 1.0
END_SECONDS = 5.0
"""For a watch to end when it is told to, before it is killed."""

RANK = re.compile(r"\brank (\d+)")


@dataclass(frozen=True, slots=True)
class Look:
    """What stood in the state file of the job's instance. `at`: monotonic seconds when it was found there."""

    at: float
    view: Mapping[str, Any]

    @property
    def state(self) -> str:
        """A value of `Progress`."""
        return str(self.view.get("state"))

    @property
    def event(self) -> str | None:
        """A value of `watch.progress.model.Event`, of this look alone."""
        event = self.view.get("event")
        return event if isinstance(event, str) else None

    def ranks(self, role: str) -> tuple[int, ...]:
        """The ranks that have this role in the stop that is on: "culprit", "suspect"."""
        named = [str(one) for one in self.view.get("suspects") or () if str(one).startswith(f"{role}:")]
        return tuple(sorted({int(number) for one in named for number in RANK.findall(one)[:1]}))

    @property
    def last_stop(self) -> Mapping[str, Any]:
        """Of `StopView`; empty when there was none."""
        stop = self.view.get("last_stop")
        return stop if isinstance(stop, dict) else {}


class Watcher:
    """To be used in a `with`, inside that of the job: it ends first.

    `command`: the watch; the instance, its page and the folders are added. `folder`: becomes its own, with state/,
    bundles/ and what it said in watch.log. `gone`: raises no error for a watch that ends: `ended` says so.
    """

    def __init__(self, command: Sequence[str], instance: str, url: str, period: float, folder: Path) -> None:
        folder = folder.absolute()
        self.folder, self.bundles = folder, folder / "bundles"
        self.period = period
        self._instance = instance
        options = ["--instance", instance, "--metrics-url", url, "--period", f"{period:g}"]
        self._command = [*command, *options, "--state", str(folder / "state"), "--bundles", str(self.bundles)]
        self._process: Launched | None = None
        self._looks: list[Look] = []
        self._end = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._samples: list[tuple[float, Usage]] = []

    def __enter__(self) -> Watcher:
        for part in (self.folder, self.folder / "state", self.bundles):
            part.mkdir(parents=True, exist_ok=True)
        self._process = Launched(self._command, dict(os.environ), self.folder / LOG, tied=True)
        self._reader.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """Of the watch; 0 before it was started."""
        return self._process.pid if self._process is not None else 0

    @property
    def looks(self) -> list[Look]:
        """All so far, in order."""
        return list(self._looks)

    @property
    def ended(self) -> str | None:
        """How it ended by itself, with its last words; None while it runs."""
        if self._process is None or self._process.end is None:
            return None
        try:
            said = (self.folder / LOG).read_bytes()[-800:].decode(errors="replace").strip()
        except OSError:
            said = ""
        return f"the watch ended with status {self._process.end.code} and said last: {said or 'nothing'}"

    def until(self, there: Callable[[Look], bool], seconds: float, since: float = 0.0) -> Look | None:
        """The first look found after `since` (monotonic seconds) of which `there` holds; None when none comes.

        Waits for at most `seconds`, and no longer than the watch lives.
        """
        end, position = time.monotonic() + seconds, 0
        while True:
            ended = self.ended is not None
            looks = self._looks
            for look in looks[position:]:
                position += 1
                if look.at > since and there(look):
                    return look
            if ended or time.monotonic() >= end:
                return None
            time.sleep(POLL_SECONDS)

    def cpu_share(self, start: float, end: float) -> float | None:
        """Seconds of processor time a second, of it and its children, between two moments (monotonic seconds)."""
        inside = [(at, usage) for at, usage in self._samples if start <= at <= end]
        if len(inside) < 2 or inside[-1][0] <= inside[0][0]:
            return None
        return (inside[-1][1].cpu - inside[0][1].cpu) / (inside[-1][0] - inside[0][0])

    def rss(self, start: float, end: float) -> int:
        """Most bytes that it and its children held at a time between two moments (monotonic seconds)."""
        return max((usage.rss for at, usage in self._samples if start <= at <= end), default=0)

    def stop(self) -> None:
        """Ends it and what it started; may be called twice."""
        self._end.set()
        if self._reader.ident is not None:
            self._reader.join()
        if self._process is None:
            return
        if self._process.end is None:
            with suppress(ProcessLookupError):
                self._process.signal(signal.SIGTERM)
            deadline = time.monotonic() + END_SECONDS
            while self._process.end is None and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        self._process.kill()
        self._process.gone()

    def _read(self) -> None:
        """A thread of its own: every state is seen, whatever the drill waits for."""
        before, measured = (0, 0), 0.0
        path = self.folder / "state" / STATE
        while not self._end.wait(POLL_SECONDS):
            now = time.monotonic()
            if self._process is not None and now - measured >= USAGE_SECONDS:
                measured = now
                self._samples.append((now, usage_of(self._process.pid)))
            try:
                stat = path.stat()
                identity = (stat.st_ino, stat.st_mtime_ns)
                if identity == before:
                    continue
                document = json.loads(path.read_bytes())
                before = identity
            except (OSError, ValueError):
                continue  # not there yet, or exchanged at this moment
            self._looks += [
                Look(now, one)
                for one in document.get("instances") or ()
                if isinstance(one, dict) and one.get("name") == self._instance
            ]
