"""Where the instance's processes write what they have to say: open files, and the folders that launchers and engines
keep for them. Only looks; nothing is opened here."""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.bounded import each
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.find import options
from rankmuster.collect.left_behind import Candidate, Sorted, somebody_missing, sort_out
from rankmuster.collect.logs import left_outputs
from rankmuster.collect.logs.sources import Source, open_kind
from rankmuster.collect.machine import Machine
from rankmuster.collect.target import ProcessOfInstance, Role, Target

MAX_WALKED = 4000
"""Names looked at below one log folder: torchrun keeps two files a rank and attempt."""
MAX_DEPTH = 5
PATIENCE = 1.0
"""Seconds for the looks at one process's files, or at one folder."""
OLD = 60.0
"""Seconds by which a log may have been last written before the instance started and still be its own (clocks)."""

_PID_IN_NAME = re.compile(r"[._\-](\d{1,10})\.(?:out|err|log)$")
_TORCHRUN = re.compile(r"(?:.*/)?attempt_(\d{1,6})/(\d{1,6})/(?:stdout|stderr)\.log$")
_DUMP = re.compile(r"VLLM_STACK_DUMP_for_(?:worker_(\d{1,6})|engine_\d{1,6})_(\d{1,10})\.log")
_OF_ALL = re.compile(r"(?:raylet|gcs_server|monitor|dashboard_agent)\.(?:out|err|log)$")


@dataclass
class Outputs:
    """`sources`: likeliest first. `written`: who writes to which file, as the process names it. `elsewhere`: what kind
    of end -> whose output goes there, for people. `stuck`: what did not let itself be looked at in time."""

    sources: list[Source] = field(default_factory=list)
    written: list[tuple[ProcessOfInstance, str]] = field(default_factory=list)
    elsewhere: dict[str, list[str]] = field(default_factory=dict)
    journal: bool = False
    piped: bool = False
    stuck: list[str] = field(default_factory=list)


def outputs(target: Target, machine: Machine, deadline: Deadline) -> Outputs:
    """Every place, in the order of its worth: the ranks' own output first.

    Asking after a file on a server that is gone takes for ever: each process and folder is looked at patiently.
    """
    workers = list(target.workers)
    others = [process for process in target.processes if process not in workers]
    by_pid = {process.pid: process for process in target.processes}
    jobs: list[tuple[str, Callable[[], Outputs]]] = []
    for process in (*workers, *others):
        jobs.append((f"pid {process.pid}", partial(_own, process, by_pid, machine)))
    for process in (*workers, *others):
        jobs.append((f"pid {process.pid}", partial(_named, process, target)))
    for folder in target.log_folders:
        jobs.append((str(folder), partial(_in_folder, folder, target)))
    done = each(jobs, lambda job: job[1](), patience=PATIENCE, total=deadline.remaining() / 2)
    found = Outputs(stuck=[name for name, _ in done.stuck])
    for _, part in done.results:
        found.sources.extend(part.sources)
        found.written.extend(part.written)
        found.journal, found.piped = found.journal or part.journal, found.piped or part.piped
        for kind, who in part.elsewhere.items():
            found.elsewhere.setdefault(kind, []).extend(who)
    return found


def left_by_the_dead(found: Outputs, target: Target, machine: Machine, deadline: Deadline) -> Sorted:
    """The logs of ranks that have ended, by what `found` says of the living. Empty where all live that were started."""
    if not found.written or not somebody_missing(machine.proc, target):
        return Sorted()
    offset, world = left_outputs.offset_of(target.workers), target.world_size
    ranked = [(process, path) for process, path in found.written if process.rank is not None]
    jobs: list[Callable[[], list[Candidate]]] = [
        lambda: left_outputs.beside(ranked, offset, world),
        lambda: list(left_outputs.by_name(found.written, world, ranks=not ranked)),
    ]
    done = each(jobs, lambda job: job(), patience=PATIENCE, total=deadline.remaining() / 4)
    own = {(process.root, path) for process, path in found.written}
    once = {(str(one.like.root), one.path): one for _, part in done.results for one in reversed(part)}
    new = [one for one in once.values() if (one.like.root, one.path) not in own]
    left = sort_out(new, machine.proc, target, deadline)
    found.sources.extend(
        Source(one.like.root, one.path, one.path.rsplit("/", 1)[-1], one.rank, one.like.uid) for one in left.ours
    )
    return left


def _named(process: ProcessOfInstance, target: Target) -> Outputs:
    errors = list(_error_file(process))
    return Outputs([*errors, *_stack_dumps(process, target)], [(process, source.path) for source in errors])


def _in_folder(folder: Path, target: Target) -> Outputs:
    return Outputs(list(_folder(folder, target)))


def _own(process: ProcessOfInstance, by_pid: Mapping[int, ProcessOfInstance], machine: Machine) -> Outputs:
    found = Outputs()
    for number in (2, 1):
        path = f"{process.pid}/fd/{number}"
        kind = open_kind(machine.proc, path)
        if kind is None:
            continue
        mode, link = kind
        if stat.S_ISREG(mode):
            named = link.removesuffix(" (deleted)")
            found.sources.append(Source(machine.proc, path, named, _rank(process, by_pid), descriptor=True))
            found.written.append((process, named))
            continue
        if link == "/dev/null" or process.state == "Z":
            continue
        who = f"rank {process.rank}" if process.rank is not None else f"pid {process.pid}"
        listed = found.elsewhere.setdefault(files_below.kind(mode), [])
        if who not in listed:
            listed.append(who)
        found.piped = found.piped or stat.S_ISFIFO(mode)
        found.journal = found.journal or stat.S_ISSOCK(mode)
    return found


def _rank(process: ProcessOfInstance, by_pid: Mapping[int, ProcessOfInstance]) -> int | None:
    """Its own, or that of the rank that has started it: what a rank's compile workers write is the rank's log."""
    for _ in range(len(by_pid)):
        above = by_pid.get(process.parent or 0)
        if process.rank is not None or process.role is not Role.HELPER or above is None:
            break
        process = above
    return process.rank


def _error_file(process: ProcessOfInstance) -> Iterator[Source]:
    """torchrun's: the exception that ended a rank, as JSON. The launcher may run as another user: readers tell."""
    path = process.environ.get("TORCHELASTIC_ERROR_FILE", "")
    if process.rank is not None and path.startswith("/"):
        yield Source(process.root, path, "error.json", process.rank, process.uid)


def _stack_dumps(process: ProcessOfInstance, target: Target) -> Iterator[Source]:
    """vLLM's own stall watchdog (0.33.0 and later), where its server names a folder."""
    text = options.value(process.command, "--watchdog-config")
    try:
        folder = json.loads(text).get("dump_dir") if text else None
    except (ValueError, AttributeError, RecursionError):
        return
    if not isinstance(folder, str) or not folder:
        return
    inner = {one.inner_pid for one in target.processes}
    place = str(Path(process.cwd or "/") / folder)
    try:
        listed = files_below.names_in(process.root, place)
    except OSError:
        return
    for name in listed:
        match = _DUMP.fullmatch(name)
        if match and int(match[2]) in inner:
            rank = int(match[1]) if match[1] else None
            yield Source(process.root, f"{place}/{name}", name, rank, process.uid)


def _folder(folder: Path, target: Target) -> Iterator[Source]:
    """Logs of these processes in a folder that the instance has named: torchrun's attempts, Ray's session."""
    inside = [one for one in target.processes if folder.is_relative_to(one.root)]
    if not inside:
        return
    process = max(inside, key=lambda one: len(one.root.parts))  # everything is below `/`, and little below another root
    root, inner = process.root, "/" + str(folder.relative_to(process.root))
    by_pid = {one.inner_pid: one for one in target.processes}
    by_local = {one.local_rank: one.rank for one in target.processes if one.local_rank is not None}
    offset = left_outputs.offset_of(target.processes)
    oldest = min(one.started_at for one in target.processes) - OLD
    attempts: list[tuple[int, Source]] = []
    for path in _walk(root, inner.rstrip("/")):
        torchrun = _TORCHRUN.fullmatch(path)
        pid = _PID_IN_NAME.search(path)
        name = path.rsplit("/", 1)[-1]
        if torchrun and _written_since(root, path, oldest):
            local = int(torchrun[2])
            rank = by_local.get(local, local + offset if offset is not None else None)
            attempts.append((-int(torchrun[1]), Source(root, path, f"attempt{torchrun[1]}-{name}", rank, process.uid)))
        elif pid and int(pid[1]) in by_pid:
            yield Source(root, path, name, by_pid[int(pid[1])].rank, process.uid)
        elif _OF_ALL.fullmatch(name):
            yield Source(root, path, name, None, process.uid)
    yield from (source for _, source in sorted(attempts, key=lambda entry: entry[0]))


def _walk(root: Path, top: str) -> Iterator[str]:
    waiting, seen = [(top, 0)], 0
    while waiting:
        place, depth = waiting.pop()
        try:
            listed = files_below.names_in(root, place)
        except OSError:
            continue  # no folder: a file, which stands in the listing already
        for name in listed:
            seen += 1
            if seen > MAX_WALKED:
                return
            path = f"{place}/{name}"
            if "." in name and not name.startswith("."):
                yield path
            elif depth < MAX_DEPTH:
                waiting.append((path, depth + 1))


def _written_since(root: Path, path: str, when: float) -> bool:
    try:
        return files_below.status(root, path).st_mtime >= when
    except OSError:
        return False


def elsewhere(found: Outputs) -> str:
    """Whose output goes where nobody can read it again, in words."""
    phrases = [f"{kind} ({_some(who)})" for kind, who in sorted(found.elsewhere.items())]
    return " and ".join(phrases)


def _some(who: Iterable[str]) -> str:
    listed = list(who)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
