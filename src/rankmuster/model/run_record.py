"""What a supervisor remembers of its instance beyond its own death, and the file that it is kept in.

The next supervisor of that name reads it to find what a killed one left running; whoever collects evidence of a group
that has ended reads it to learn who belonged to it, how each ended, and where each left its words. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain

SCHEMA = "rankmuster.run/1"

MAX_BYTES = 4 << 20
MAX_EARLIER = 64
"""Starts and operations that are remembered: an instance is rebuilt some times an hour at most."""
MAX_ROSTER = 10_000
MAX_MEMBERS = 2048
"""Processes of one incarnation that are told one by one: a node of eight ranks has some hundred."""
MAX_OUTPUTS = 4
"""Files of one process that are told: standard output, standard error, torchrun's error file."""

_BOUNDS = Bounds(text=4096, members=MAX_ROSTER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """One process: `ticks`: its start, in clock ticks since boot."""

    pid: int
    ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One process of an incarnation, living or not. Times in unix seconds.

    `outputs`: regular files that its standard output and error went to, as the supervisor sees them. `alive`: the last
    look that met it, `gone`: the first that did not; None while it lives. `exit_code`: -N for signal N; None where
    nobody has told the supervisor: only orphans come to it, and a launcher collects its own ranks. `exited`: when that
    code came. `signalled`: the last signal that the supervisor itself sent it.
    """

    pid: int
    ticks: int
    uid: int = 0
    parent: int = 0
    name: str = ""
    started: float = 0.0
    rank: int | None = None
    local_rank: int | None = None
    world: int | None = None
    outputs: tuple[str, ...] = ()
    alive: float | None = None
    gone: float | None = None
    exit_code: int | None = None
    exited: float | None = None
    signalled: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """One incarnation, from before its start. Times in unix seconds.

    `log`: the file that its output is appended to, None for the supervisor's own output; `offset`: bytes of the file
    before it, `log_inode`: which file that was. `environment`: of a rank as far as it may be written down, of the
    command before a rank was seen. `evidence`: the folder of its logging profile. `namespace`: of the pids.
    `ended_by`: who ended it, in words; empty where it ended by itself.
    """

    log: str | None = None
    offset: int = 0
    log_inode: int | None = None
    cwd: str = "/"
    profile: str = "none"
    evidence: str = ""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    namespace: str = ""
    members: tuple[Member, ...] = ()
    left_out: int = 0
    ended: float | None = None
    ended_by: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """`incarnation`: which one it ended or started. `ending`: None while it is being done."""

    name: str
    verb: str
    incarnation: str
    ending: str | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """`incarnation`: started last, by `operation` where somebody asked for it; `ended`: it is gone, all of it.

    `supervisor`: who wrote this. `launcher`: the command's own process. `roster`: what it had started when looked at
    last. `life`: more of the incarnation. `earlier`: incarnations before, all of them gone; oldest first.
    """

    instance: str
    boot: str
    supervisor: Known
    incarnation: str | None = None
    operation: str | None = None
    at: float | None = None
    launcher: Known | None = None
    ended: bool = True
    exit_status: int | None = None
    ended_by_itself: bool = False
    roster: tuple[Known, ...] = ()
    life: Life | None = None
    earlier: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()

    def done(self, operation: str) -> Operation | None:
        """The operation of that name, where it was asked for."""
        return next((one for one in self.operations if one.name == operation), None)


def parse(data: bytes) -> Record:
    """Raises ValueError, which says what is wrong with it."""
    try:
        raw = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(raw, dict) or raw.pop("schema", None) != SCHEMA:
        raise ValueError(f"it is no {SCHEMA}")
    try:
        return from_plain(Record, raw, _BOUNDS)
    except NotPlain as error:
        raise ValueError(f"it is not as it was written: {error}") from error


def written(record: Record) -> str:
    """As `parse` reads it."""
    return json.dumps({"schema": SCHEMA, **to_plain(record, _BOUNDS)}, separators=(",", ":"))
