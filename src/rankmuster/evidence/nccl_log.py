"""NCCL_DEBUG logs of one or many processes, whole or in rotated pieces, in a file of their own or among other output.

A log is evidence of absence only if nothing is missing from it. START without COMPLETE is a stuck init, and calls can
be compared by their position, only when the writer's log is unbroken from its start. So the reader watches how each
writer begins: one that issues calls or tears down on a communicator whose init it never printed has a hole before it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from sys import intern

from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.nccl_line import Level, LineParser, NcclLine
from rankmuster.evidence.nccl_messages import api_call, observation
from rankmuster.evidence.nccl_problems import classify
from rankmuster.model.nccllog import (
    InitPhase,
    LogOrigin,
    NcclCall,
    NcclInit,
    NcclLogFile,
    NcclProblem,
    NcclTransport,
    NcclTuning,
    NcclVersionLine,
)
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.stamp import Stamp

_HEAD = 65_536
_STARTS = re.compile(rb"[^\s:]+:\d+:\d+ (?:\[-?\d+\] )?[^\n]*NCCL (?:WARN|INFO|ATTN|TRACE|CALL)")
_INSIDE = re.compile(rb"NCCL|INFO|comm(?:Id)? ?0x|rank \d+|nranks|busId|opCount|Init (?:START|COMPLETE)|via |<\d+>")
"""What stands behind the beginning of a line: how a fragment of one is told from other output."""

MIN_NUL_RUN = 16
"""NULs in a row that mean lost text: copy-and-truncate rotation and full disks leave whole blocks of them."""

_MAX_TUNINGS = 65_536
"""Tuning choices remembered per log, so that only changes of a choice become observations."""

_RAS_PEER = re.compile(r"RAS peer \d{1,9}: socket ([^\s<>]{1,255}<\d{1,5}>), pid (\d{1,10}),")

_MARKS = (b"NCCL INFO ", b"NCCL WARN ", b"NCCL ATTN ", b"NCCL CALL ", b"NCCL TRACE ")
_SHOWN = 500
"""Characters of a warning's text that are kept."""

_NEVER_FIRST = (NcclCall, NcclTuning, NcclTransport)
_NEVER_FIRST_TEXT = ("RAS collective", "RAS trying", "RAS failed to find", "RAS current", "RAS keep-alive", "[Service")
"""What a process prints only after an init: where a log begins with it, its beginning is lost."""

_Writer = tuple[str, int]


class _Writers:
    """Who wrote, and whether each one's log can be believed to be whole."""

    def __init__(self) -> None:
        self.seen: dict[_Writer, None] = {}
        self._hosts_of: dict[int, list[str]] = {}
        self.ras_threads: set[tuple[str, int, int | None]] = set()
        self._comms: set[tuple[_Writer, str]] = set()
        self._with_init: set[_Writer] = set()
        self._unseen: dict[tuple[_Writer, str], list[int]] = {}  # (first, highest) operation count
        self._torn: dict[_Writer, None] = {}
        self._late: dict[_Writer, bool] = {}  # whether the first INFO line is one that never comes first
        self._begun: set[_Writer] = set()
        self._version_first = False

    def host(self, host: str, pid: int) -> str:
        """The host's name without what another line left before it (`28.27 0nodeA:262317` where nodeA is known)."""
        if (host, pid) in self.seen:
            return host
        hosts = self._hosts_of.setdefault(pid, [])
        for known in hosts:
            if host.endswith(known):
                return known
        hosts.append(host)
        self.seen[(host, pid)] = None
        return host

    def first(self, writer: _Writer, *, late: bool) -> None:
        """The kind of the first INFO line; later ones do not count."""
        self._late.setdefault(writer, late)

    def version(self, writer: _Writer | None) -> None:
        """A version line, printed before everything else: by one writer for itself, or bare for all of the log."""
        if writer is not None and (writer not in self._late or not self._late[writer]):
            self._begun.add(writer)
        elif writer is None:
            self._version_first = self._version_first or not any(self._late.values())

    def init(self, writer: _Writer, value: NcclInit) -> None:
        key = (writer, value.comm)
        if value.phase in (InitPhase.START, InitPhase.COMPLETE):
            self._with_init.add(writer)
            self._comms.add(key)
        elif key not in self._comms:
            self._torn[writer] = None

    def call(self, writer: _Writer, value: NcclCall) -> None:
        key = (writer, value.comm)
        if key in self._comms:
            return
        counts = self._unseen.setdefault(key, [value.op_count, value.op_count])
        if value.op_count > counts[1]:
            counts[1] = value.op_count

    def holed(self) -> tuple[_Writer, ...]:
        """Writers whose log does not begin where they began."""
        found = dict(self._torn)
        counted: set[_Writer] = set()
        for (writer, _), (first, highest) in self._unseen.items():
            if first == 0 and highest > 0:
                counted.add(writer)
            elif not self._without_init(writer):
                found[writer] = None
        for writer, late in self._late.items():
            if late and writer not in counted and not self._without_init(writer):
                found[writer] = None
        return tuple(found)

    def _without_init(self, writer: _Writer) -> bool:
        """NCCL_DEBUG_SUBSYS without INIT prints no init at all; then the version line stands for the beginning."""
        if writer in self._begun:
            return writer not in self._with_init
        return self._version_first and not self._with_init


class _Log:
    """The state of one pass over a blob."""

    def __init__(self, blob: Blob, rank: int | None) -> None:
        self.blob = blob
        self.rank = rank
        self.writers = _Writers()
        self.known = 0
        self.damaged = 0
        self.first: Stamp | None = None
        self.last: Stamp | None = None
        self._ras_pids: dict[str | None, str] = {}
        self._tunings: dict[tuple[object, ...], tuple[object, ...]] = {}
        # Calls are logged by COLL and again by CALL: counting both would double every one.
        self._api_calls = b"opCount " not in blob.data

    def observations(self) -> Iterator[object]:
        parser = LineParser()
        for number, line in text.lines(self.blob.data):
            if "NCCL " not in line:
                continue
            for part in parser.parse(line):
                self.known += 1
                if part.stamp is not None:
                    self.first = self.first or part.stamp
                    self.last = part.stamp
                seen = self._observe(number, part)
                if seen is not None:
                    yield seen

    def _observe(self, number: int, line: NcclLine) -> object | None:
        host, pid = line.host, line.pid
        if host is not None and pid is not None:
            host = intern(self.writers.host(host, pid))
        rank = line.rank if line.rank is not None else self.rank
        origin = LogOrigin(self.blob.path, number, host, pid, line.tid, line.dev, rank, line.stamp)
        if line.level in (Level.CALL, Level.TRACE):
            called = api_call(line, origin) if self._api_calls else None
            if called is not None and host is not None and pid is not None:
                self.writers.call((host, pid), called)
            return called
        if line.level in (Level.INFO, Level.VERSION):
            fact = observation(line, origin)
            if host is not None and pid is not None:
                late = isinstance(fact, _NEVER_FIRST) or line.message.startswith(_NEVER_FIRST_TEXT)
                self.writers.first((host, pid), late=late)
            if fact is not None:
                return self._fact(fact, host, pid)
            if "opCount " in line.message:
                self.damaged += 1
                return None
        return self._problem(line, origin)

    def _fact(self, fact: object, host: str | None, pid: int | None) -> object | None:
        if isinstance(fact, NcclVersionLine):
            self.writers.version((host, pid) if host is not None and pid is not None else None)
        elif isinstance(fact, NcclTuning):
            chosen = (fact.algorithm, fact.protocol, fact.channels)
            key = (host, pid, fact.op, fact.bytes)
            if self._tunings.get(key) == chosen:
                return None
            if len(self._tunings) < _MAX_TUNINGS:
                self._tunings[key] = chosen
        elif host is not None and pid is not None:
            if isinstance(fact, NcclCall):
                self.writers.call((host, pid), fact)
            elif isinstance(fact, NcclInit):
                self.writers.init((host, pid), fact)
        return fact

    def _problem(self, line: NcclLine, origin: LogOrigin) -> NcclProblem | None:
        thread = (origin.host or "", origin.pid or 0, origin.tid)
        if line.message.startswith("RAS ") and origin.tid != origin.pid:
            self.writers.ras_threads.add(thread)
            listed = _RAS_PEER.match(line.message)
            if listed is not None:
                self._ras_pids[listed[1]] = listed[2]
        found = classify(line)
        if found is None:
            return None
        detail = found.detail
        if thread in self.writers.ras_threads and ("thread", "ras") not in detail:
            # RAS reconnects to whom it lost: its failures tell of a peer or a path, not of the job's own traffic.
            detail = (*detail, ("thread", "ras"))
        if found.peer in self._ras_pids:
            detail = (*detail, ("peer_pid", self._ras_pids[found.peer]))
        return NcclProblem(origin, found.kind, found.primary, line.message[:_SHOWN], found.peer, detail)


def _recognises(blob: Blob) -> bool:
    data = blob.data
    if b"NCCL " not in data or not text.is_text(data):
        return False
    return any(mark in data for mark in _MARKS) or (b"NCCL version " in data and b"+cuda" in data)


def _headless(data: bytes) -> bool:
    """Whether the text begins inside a line of NCCL's: the end of a log, of whose beginning nothing is known."""
    first, _, rest = data[:_HEAD].partition(b"\n")
    second = rest.partition(b"\n")[0]
    whole = _STARTS.search(first) is not None or b"NCCL version " in first
    return not whole and _STARTS.search(second) is not None and _INSIDE.search(first) is not None


def _pass(blob: Blob, rank: int | None) -> tuple[_Log, list[object]]:
    log = _Log(blob, rank)
    return log, list(log.observations())


def _read(blob: Blob) -> Reading:
    rank = names.rank_of(blob.path)
    log, found = _pass(blob, rank)
    if rank is not None and len(log.writers.seen) > 1:
        # A name speaks for one process; a shared output named after a rank (of a node, say) names none of its writers.
        log, found = _pass(blob, None)
    if log.known == 0:
        return Reading()
    nuls = bytes(MIN_NUL_RUN) in blob.data or _headless(blob.data)
    holed = log.writers.holed()
    found.append(
        NcclLogFile(
            blob.path,
            log.known,
            nuls or bool(holed),
            tuple(log.writers.seen),
            log.first,
            log.last,
            () if nuls else holed,
            not blob.data.endswith((b"\n", b"\r")),
        )
    )
    problems: list[Problem] = []
    if log.damaged:
        problems.append(
            Problem(
                ProblemKind.DAMAGED,
                blob.path,
                f"{log.damaged} call lines of this NCCL log are cut or written into each other and were left out; "
                f"the other {log.known - log.damaged} NCCL lines were read",
            )
        )
    if nuls:
        problems.append(
            Problem(
                ProblemKind.DAMAGED,
                blob.path,
                "blocks of NUL bytes stand where lines were lost (copy-and-truncate rotation, or a full disk); "
                f"the {log.known} NCCL lines around them were read, and nothing is concluded from what they lack",
            )
        )
    return Reading(tuple(found), tuple(problems), log.known)


READER = Reader(name="nccl-log", plane=Plane.NCCL_LOG, kind=ReaderKind.LINES, recognises=_recognises, read=_read)
