"""Uncaught and reported Python exceptions: the last line of a traceback, who had it, and whether another came first.

Tracebacks come bare, with a prefix on every line (vLLM, `[rank3]: `, Ray) or with one on their first line only (SGLang,
`Scheduler hit an exception: Traceback ...`); several writers' lines interleave, so each writer has its own state. In a
chain (`During handling of the above exception, ...`) the first is the cause, the later ones are consequences.
Tracebacks that a program logs as a warning or below were handled and are not reported.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds
from rankmuster.evidence.log_prefix import Prefix
from rankmuster.model.frameworklog import LineOrigin, PythonException
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

MAX_MESSAGE = 1000
"""Characters kept of an exception's message; NCCL's own error with its last error takes about 500."""
MAX_TRACEBACK = 600
"""Lines in which a traceback's last line must come; the deepest seen (compiled models) are below 300."""
MAX_REACH = 3000
"""Lines after which a traceback without end is given up: interleaved writers stretch one, a cut one never ends."""
INFO_WITHIN = 120
"""Characters in which a record's level stands. INFO records are no part of a traceback that counts: passing them by
keeps a traceback without end from slowing the rest of the log."""
MAX_OPEN = 512
"""Writers followed at once; more than the ranks that one file collects in practice."""
MAX_FOUND = 2000
"""Distinct exceptions reported of one file: a server that fails each request repeats itself for hours."""

_MARKS = ("Traceback (most recent call last)", "hit an exception")
_HEADER = "Traceback (most recent call last):"
_CHAINS = ("During handling of the above exception", "The above exception was the direct cause")
_FRAME = re.compile(r'\s*[|+]?\s*File "([^"\n]{1,400})", line (\d{1,9})(?:, in (\S{1,200}))?')
_LAST = re.compile(r"(?P<name>[A-Za-z_][\w.]{0,200}?)(?:: (?P<message>.*)|:)?$", re.DOTALL)
_NAME = re.compile(
    r"(?:.*\.)?_?[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Timeout|Warning|Failed|Failure|Group|Empty|Full|"
    r"Iteration|Cancelled|Closed)$|(?:[a-z_]\w*\.)+_?[A-Z]\w*$"
)
_MORE = ("nccl", "Last error:", "Search for `cuda")
_CONSEQUENCES = re.compile(
    r"root cause|stack trace (?:above|\(above\))|EngineDead|ncclRemoteError|remote process exited|"
    r"Connection (?:closed|reset) by peer|Broken pipe|communicator was aborted|watchdog thread terminated|"
    r"Watchdog caught collective operation timeout|died unexpectedly|background process|"
    r"Worker failed with error|worker process has died|failed in another process",
    re.IGNORECASE,
)
_CONSEQUENCE_NAMES = frozenset(
    (
        "EngineDeadError",
        "EngineGenerateError",
        "CancelledError",
        "KeyboardInterrupt",
        "SystemExit",
        "GeneratorExit",
        "BrokenPipeError",
        "ConnectionResetError",
        "BrokenProcessPool",
        "ChildFailedError",
        "ActorDiedError",
        "RayActorError",
        "ActorUnavailableError",
    )
)


@dataclass
class _Trace:
    """One traceback being read. `silent`: logged as a warning or below, so it was handled."""

    origin: LineOrigin
    chained: bool
    silent: bool
    where: str | None = None
    lines: int = 0


@dataclass
class _Found:
    name: str
    message: str
    trace: _Trace


def _key(prefix: Prefix) -> tuple[object, ...] | None:
    if prefix.pid is None and prefix.worker is None and prefix.stamp is None and prefix.level is None:
        return ("rank", prefix.rank) if prefix.rank is not None else None
    return ("process", prefix.rank, prefix.worker, prefix.pid)


def _consequence(name: str, message: str) -> bool:
    return name.rsplit(".", 1)[-1] in _CONSEQUENCE_NAMES or bool(_CONSEQUENCES.search(message))


class _Reader:
    def __init__(self, blob: Blob) -> None:
        self.origins = Origins(blob)
        self.open: dict[tuple[object, ...] | None, _Trace] = {}
        self.pending: dict[tuple[object, ...] | None, _Found] = {}
        self.chained: set[tuple[object, ...] | None] = set()
        self.found: list[PythonException] = []
        self.told: set[tuple[object, ...]] = set()
        self.problems: list[Problem] = []
        self.known = 0
        self.prune_at = MAX_REACH
        self.record: tuple[object, ...] | None = None  # writer whose record goes on in lines without prefix

    def line(self, number: int, line: str) -> None:
        if not self.open and not self.pending and _HEADER not in line and not line.startswith(_CHAINS):
            return
        if " INFO " in line[:INFO_WITHIN] and _HEADER not in line:
            return
        if number > self.prune_at:
            self._prune(number)
        origin, prefix = self.origins.of(number, line)
        own = _key(prefix)
        key = own
        if own is None and None not in self.open:
            key = self._unfinished_record()
        message = prefix.message
        if _HEADER in message:
            self._begin(key, origin, prefix)
            if own is not None:
                # vLLM, Ray and torch's [rank3] repeat the prefix on each line; other engines' records do not.
                self.record = key if prefix.engine != "vllm" and prefix.pid is None and prefix.stamp else None
        elif key in self.open:
            self._continue(key, message, own is not None and prefix.level is not None)
        elif key in self.pending:
            self._after(key, message)
        elif message.startswith(_CHAINS):
            self.chained.add(key)

    def _prune(self, number: int) -> None:
        self.prune_at = number + MAX_REACH // 4
        for key in [key for key, found in self.pending.items() if number - found.trace.origin.line > MAX_REACH]:
            self._settle(key)
        for key in [key for key, trace in self.open.items() if number - trace.origin.line > MAX_REACH]:
            self._cut(self.open.pop(key))

    def _unfinished_record(self) -> tuple[object, ...] | None:
        active = self.record in self.open or self.record in self.pending or self.record in self.chained
        return self.record if active else None

    def _begin(self, key: tuple[object, ...] | None, origin: LineOrigin, prefix: Prefix) -> None:
        self._settle(key)
        if key in self.open:
            self._cut(self.open.pop(key))
        if len(self.open) >= MAX_OPEN:
            return
        chained = key in self.chained
        self.chained.discard(key)
        silent = prefix.level in ("D", "I", "W")
        self.open[key] = _Trace(origin, chained, silent)
        self.known += 1

    def _continue(self, key: tuple[object, ...] | None, message: str, record: bool) -> None:
        trace = self.open[key]
        trace.lines += 1
        frame = _FRAME.match(message)
        if frame:
            file, line, function = frame.groups()
            trace.where = f"{function or '<module>'} {file}:{line}"
            return
        if not message or message[0] in " \t|+":
            return
        last = _LAST.match(message)
        if last and _NAME.match(last["name"]):
            del self.open[key]
            self.pending[key] = _Found(last["name"], (last["message"] or "")[:MAX_MESSAGE], trace)
        elif trace.lines > MAX_TRACEBACK or (record and trace.where is not None and trace.lines > 1 and not last):
            self._cut(self.open.pop(key))

    def _after(self, key: tuple[object, ...] | None, message: str) -> None:
        found = self.pending[key]
        if not message.strip():
            return
        if message.startswith(_CHAINS):
            self._settle(key)
            self.chained.add(key)
        elif message.startswith(_MORE) or found.message.endswith("Last error:"):
            found.message = f"{found.message}\n{message}"[:MAX_MESSAGE]
        else:
            self._settle(key)

    def _settle(self, key: tuple[object, ...] | None) -> None:
        found = self.pending.pop(key, None)
        if found is None or found.trace.silent or len(self.found) >= MAX_FOUND:
            return
        origin = found.trace.origin
        told = (origin.rank, origin.worker, origin.pid, found.name, found.message[:200], found.trace.where)
        if told in self.told:
            return
        self.told.add(told)
        self.found.append(
            PythonException(
                origin,
                found.name,
                found.message,
                found.trace.where,
                found.trace.chained or _consequence(found.name, found.message),
            )
        )

    def _cut(self, trace: _Trace) -> None:
        if not trace.silent and len(self.problems) < MAX_OPEN:
            self.problems.append(
                Problem(
                    ProblemKind.DAMAGED,
                    trace.origin.source,
                    f"the traceback at line {trace.origin.line} has no last line: which exception is unknown; "
                    f"innermost frame read: {trace.where or 'none'}",
                )
            )

    def close(self) -> Reading:
        for key in list(self.pending):
            self._settle(key)
        for trace in self.open.values():
            self._cut(trace)
        self.found.sort(key=lambda exception: exception.origin.line)
        return Reading(tuple(self.found), tuple(self.problems), self.known)


def read(blob: Blob) -> Reading:
    """PythonExceptions of a log, each distinct one once per writer."""
    if not any(mark.encode() in blob.data for mark in _MARKS):
        return Reading()
    reader = _Reader(blob)
    for number, line in text.lines(blob.data):
        reader.line(number, line)
    return reader.close()


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("Python exceptions", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
