"""NCCL's own logs: the files that NCCL_DEBUG_FILE of each process names, with what rotation has made of them, and those
that processes which have ended were told to write."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.collect.bounded import each
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.left_behind import Candidate, Sorted, left_over, somebody_missing, sort_out
from rankmuster.collect.logs import left_nccl, nccl_files
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.logs.taking import PATIENCE, outcome, take
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.collect.target import ProcessOfInstance, Role, Target

MAX_ASKED = 16
"""Processes without rank whose settings are looked at: an instance has few that start others, and may have hundreds of
helpers."""
MAX_CANDIDATES = 4096
"""Files that ended processes may have left; a folder of months may hold as many."""
_QUIET = {"", "NONE", "VERSION"}


@dataclass(frozen=True, slots=True)
class NcclLogs:
    """Of a long log its start too: there stand the ranks and communicators that the rest speaks of."""

    name: str = "nccl-log"
    budget_seconds: float = 18.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Ends of the logs first, then more of each."""
        if scene.target is None:
            return Outcome(Ending.NOTHING, "no instance was found, so nobody says where NCCL logs to")
        places = _places(scene.target, scene, deadline)
        state = take(
            places.sources,
            "nccl",
            sink,
            deadline,
            now=scene.now,
            host=scene.target.host,
            max_bytes=scene.wishes.max_log_bytes,
            between=scene.board.assessment,
            with_head=True,
            prefix_rank=False,
        )
        state.trouble.extend(f"the log of pid {pid} did not let itself be looked for in time" for pid in places.stuck)
        result = outcome(state, "NCCL log(s)", places.why)
        if state.taken and places.left.ours:
            note = f"{result.note}; {len(places.left.ours)} of them of processes that have ended"
            result = Outcome(result.ending, note + left_over(places.left), result.warnings)
        return result


@dataclass(frozen=True, slots=True)
class _Places:
    """`why`: why there may be none. `stuck`: pids whose folders did not answer. `left`: what ended processes left."""

    sources: list[Source]
    why: str
    stuck: list[int]
    left: Sorted


@dataclass(frozen=True, slots=True)
class _Named:
    """What a process's settings say. `pattern` empty: its NCCL has no file of its own. `own`: where its log is."""

    process: ProcessOfInstance
    level: str
    pattern: str = ""
    own: tuple[Source, ...] = ()
    others: tuple[Candidate, ...] = ()


def _places(target: Target, scene: Scene, deadline: Deadline) -> _Places:
    engines = [process for process in target.processes if process.rank is None and process.role is Role.ENGINE]
    users = [*target.workers, *engines]  # an engine without rank is no worker
    # Ranks inherit their settings: whoever started them has the same.
    rest = [process for process in (*target.processes, *target.gone) if process not in users][:MAX_ASKED]
    missing = somebody_missing(scene.machine.proc, target)

    def look(process: ProcessOfInstance) -> _Named:
        given = nccl_files.settings(process)
        pattern, level = given.get("NCCL_DEBUG_FILE", ""), given.get("NCCL_DEBUG", "")
        if not pattern or pattern in nccl_files.STANDARD or len(pattern) > nccl_files.MAX_PATTERN or "\0" in pattern:
            return _Named(process, level)
        hosts = [host for host in (process.environ.get("HOSTNAME", ""), scene.machine.hostname, target.host) if host]
        own = nccl_files.sources(process, pattern, hosts) if process in users else []
        # One file of all that a user of it lives to name needs no search.
        others = left_nccl.candidates(process, pattern, hosts) if missing and ("%p" in pattern or not users) else []
        return _Named(process, level, pattern, tuple(own), tuple(others))

    done = each([*users, *rest], look, patience=PATIENCE, total=deadline.remaining() / 2)
    named = [result for _, result in done.results]
    left = sort_out(_unseen(named, users), scene.machine.proc, target, deadline)
    found = [source for one in named for source in one.own]
    found.extend(_source(candidate, target) for candidate in left.ours)
    return _Places(found, _why(named, users, left), [process.pid for process in done.stuck], left)


def _unseen(named: Sequence[_Named], users: Sequence[ProcessOfInstance]) -> list[Candidate]:
    """Each once, without those that a process which can still be asked has as its own."""
    own = {(source.root, source.path) for one in named for source in one.own}
    living = {process.inner_pid for process in users if process.state not in ("Z", "X")}
    found: dict[tuple[str, str], Candidate] = {}
    for one in named:
        for candidate in one.others:
            if candidate.pid not in living and (candidate.like.root, candidate.path) not in own:
                found.setdefault((str(candidate.like.root), candidate.path), candidate)
    return list(found.values())[:MAX_CANDIDATES]


def _source(candidate: Candidate, target: Target) -> Source:
    """Whose it is only where the number is that of a process which is known still: a dead one not yet reaped, or one
    that its supervisor has known."""
    known = (one for one in (*target.processes, *target.gone) if one.state in ("Z", "X"))
    rank = next((one.rank for one in known if one.inner_pid == candidate.pid), None)
    like, name = candidate.like, candidate.path.rsplit("/", 1)[-1]
    packed = name.endswith(".gz")
    return Source(like.root, candidate.path, name.removesuffix(".gz"), rank, like.uid, packed=packed)


def _why(named: Sequence[_Named], users: Sequence[ProcessOfInstance], left: Sorted) -> str:
    level = next((one.level for one in named if one.level), "")
    files = [one for one in named if one.pattern]
    if level.upper() in _QUIET:
        return f"NCCL_DEBUG is {level or 'not set'}, so NCCL logs nothing; WARN costs nothing and tells errors"
    if not files:
        return f"NCCL_DEBUG={level} without NCCL_DEBUG_FILE goes to the processes' own output (framework-log)"
    if not users:
        why = f"no process with a rank lives here, and none has left a log of this run at {files[0].pattern[:200]}"
    else:
        why = f"{len(files)} process(es) name an NCCL_DEBUG_FILE and none of these exists (yet): no NCCL was started"
    return why + left_over(left)
