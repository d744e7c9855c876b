"""The whole of one collection: find the instance, run the collectors, close the bundle."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from pathlib import Path

from rankmuster import __version__
from rankmuster.collect.assess import look_seconds
from rankmuster.collect.bundle.manifest import Circumstances, build
from rankmuster.collect.bundle.write import NotWritten, OutputRefused, Staging, open_staging
from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.collect.find.again import GONE, look_again
from rankmuster.collect.find.endpoints import own_addresses
from rankmuster.collect.find.facts import instance_facts
from rankmuster.collect.find.naming import clean
from rankmuster.collect.find.pod_hosts import with_pod_hosts
from rankmuster.collect.find.search import Request as Wanted
from rankmuster.collect.logs.left_given import NAME as LEFT
from rankmuster.collect.look_for import Ambiguous, Sought, look_for
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending, Report
from rankmuster.collect.pool import Task, run
from rankmuster.collect.proc import Proc
from rankmuster.collect.registry import tasks as all_tasks
from rankmuster.collect.sink import Sink, SinkFull, Store
from rankmuster.collect.strip.addresses import Addresses
from rankmuster.collect.strip.text import Scrubber
from rankmuster.collect.target import Target
from rankmuster.collect.wishes import UNKNOWN, AddressMode, Wishes
from rankmuster.model.ranks_text import ranks_text

CLOSE_SHARE = 0.06
CLOSE_SECONDS = 1.2
"""Kept back of the deadline to close the bundle and, for an archive, to pack: this share, at least so many seconds."""

LEAST_SECONDS = 1.0
"""What is left at least, however slowly the program began: the process table and one look at the counters. Half of it
is the collectors', even where closing then ends after the deadline: a late bundle is better than an empty one."""

OF_NODE = frozenset({"hardware", "network", "kernel", "platform"})
"""Collectors that speak of the node whether or not an instance runs on it."""


class Refused(Exception):
    """Nothing was begun; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Called:
    """Who the instance is, where the caller knows better than this node can: its name, and its incarnation, which is
    the same on all nodes (UNKNOWN: not this node's guess either). None: as it is found. `pods`: hosts are named as the
    pods of the ranks name them."""

    instance: str | None = None
    incarnation: str | None = None
    pods: bool = False

    def of(self, machine: Machine, target: Target) -> Target:
        """The target by these names."""
        target = with_pod_hosts(machine, target) if self.pods else target
        if self.incarnation == UNKNOWN:
            target = replace(target, incarnation=None, agreed=False)
        return replace(
            target,
            name=clean(self.instance) if self.instance else target.name,
            incarnation=self.incarnation if self.incarnation not in (None, UNKNOWN) else target.incarnation,
            agreed=target.agreed or self.incarnation not in (None, UNKNOWN),
        )


@dataclass(frozen=True, slots=True)
class Request:
    """`output`: the bundle to make. `deadline_seconds`: for all of it, of which `spent_seconds` went before the work
    began: a program starts slowly on a node whose processors are all busy. More than the whole deadline is no start:
    what became this program (a shell that slept, then `exec`) had run so long, and counts for nothing. `run_folder`:
    where supervisors keep their records; None: nobody is asked. `called`: whose evidence the bundle says it is."""

    output: Path
    deadline_seconds: float
    pids: tuple[int, ...] = ()
    instance: str | None = None
    wishes: Wishes = field(default_factory=Wishes)
    spent_seconds: float = 0.0
    run_folder: Path | None = None
    called: Called = field(default_factory=Called)


@dataclass(frozen=True, slots=True)
class Saved:
    """`path` None: nothing useful could be saved. `of_instance`: whether there is evidence of an instance in it.

    `headline`: what the operator should read first.
    """

    path: Path | None
    target: Target | None
    of_instance: bool
    reports: tuple[Report, ...]
    headline: tuple[str, ...]
    seconds: float


def save(
    request: Request,
    *,
    hurry: Callable[[], bool] = lambda: False,
    machine: Machine | None = None,
    tasks: Callable[[Store], tuple[Task, ...]] | None = None,
    now: Callable[[], float] = time.time,
    clock: Clock = time.monotonic,
    seek: Callable[..., Sought] = look_for,
) -> Saved:
    """Takes everything by the deadline and closes the bundle. `seek`: finds the instance, with `look_for`'s arguments.

    Raises Refused before anything is begun: the output exists or cannot be made, or several instances run here and none
    is named.
    """
    machine = machine or Machine()
    begun, started = clock(), now()
    spent = request.spent_seconds if request.spent_seconds < request.deadline_seconds else 0.0
    deadline = Deadline.after(max(request.deadline_seconds - spent, LEAST_SECONDS), clock)
    try:
        staging = open_staging(request.output)
    except OutputRefused as error:
        raise Refused(str(error)) from error
    try:
        wanted = Wanted(request.pids, request.instance)
        sought = seek(machine, wanted, now=started, deadline=deadline, run_folder=request.run_folder)
    except Ambiguous as error:
        staging.abandon()
        raise Refused(str(error)) from error
    except BaseException:
        staging.abandon()
        raise
    target = request.called.of(machine, sought.target) if sought.target is not None else None
    store = _store(staging, machine, target, request.wishes.addresses)
    closing = max(CLOSE_SECONDS, CLOSE_SHARE * request.deadline_seconds)
    working = Deadline(max(deadline.before(closing).at, clock() + LEAST_SECONDS / 2), clock)
    apart = look_seconds(request.wishes.look_seconds, working.remaining())
    wishes = replace(request.wishes, look_seconds=apart)
    scene = Scene(target, machine, wishes, now=now, clock=clock)
    own = store.sink("instance")
    notes = list(sought.notes)
    if target is not None:
        _put_instance(own, target, now())
    chosen = tasks(store) if tasks is not None else all_tasks(store, request.wishes.part)
    reports = run(chosen, scene, store, working, hurry)
    if target is not None:
        again = look_again(machine, target)
        if again.ended:
            notes.append(_vanished(again.target, again.ended))
        _put_instance(own, again.target, now())
    if store.refused is not None:
        notes.append(f"no room for all that was found ({store.refused}): name an --output with more, and collect again")
    pieces = store.close()
    # What came between a collector's report and the close is kept, so it is told as well.
    reports = tuple(replace(r, files=tuple(p.path for p in pieces if p.collector == r.name)) for r in reports)
    of_instance = any(piece.collector not in OF_NODE for piece in pieces if target or piece.collector == LEFT)
    useful = any(report.files for report in reports)
    seconds = clock() - begun
    if not useful:
        staging.abandon()
        return Saved(None, target, False, reports, (*notes, "nothing could be saved"), seconds)
    headline = _headline(target, machine, request, reports, notes)
    around = Circumstances(
        __version__,
        machine.hostname,
        started,
        now(),
        request.deadline_seconds,
        _identity(target),
        tuple(notes),
        _plain(wishes),
    )
    try:
        sealed = staging.seal(build(pieces, reports, around), deadline)
    except NotWritten as error:
        return Saved(None, target, False, reports, (*headline, str(error)), clock() - begun)
    return Saved(sealed.path, target, of_instance, reports, (*headline, *sealed.notes), clock() - begun)


def _store(staging: Staging, machine: Machine, target: Target | None, mode: AddressMode) -> Store:
    """The store with the rule for addresses of this instance. What RAS says is kept raw unless every address goes."""
    workers = target.workers[:1] if target is not None else ()
    namespaces = [os.getpid(), *(process.pid for process in workers)]  # a sidecar's own network may be another one
    own = frozenset(one for pid in namespaces for one in own_addresses(Proc(machine.proc), pid))
    rule = Addresses(mode, own, target.name.encode() if target is not None else b"")

    def raw(collector: str, data: bytes) -> bytes:
        return rule.scrub(data) if mode is AddressMode.ALL and collector == "ras" else data

    return staging.store(scrubber=Scrubber(rule), raw_rule=raw)


def _put_instance(sink: Sink, target: Target, time: float) -> None:
    """What is known of the instance and its processes; written at once and again at the end."""
    facts = instance_facts(target, time)
    text = json.dumps(facts, indent=1, ensure_ascii=False, default=str)
    try:
        sink.put("instance.json", text.encode("utf-8", "replace"), look_time=time, replace=True)
        if target.ended is not None:
            said = json.dumps(target.ended.said, indent=1, ensure_ascii=False, default=str).encode("utf-8", "replace")
            sink.put("platform/supervisor.json", said, look_time=time, host=target.host, replace=True)
    except SinkFull:
        return


def _vanished(target: Target, ended: tuple[int, ...]) -> str:
    told = []
    for process in target.processes:
        if process.pid in ended:
            who = f"rank {process.rank}" if process.rank is not None else process.name
            how = "not collected yet" if process.state != GONE else "gone"
            code = f", exit code {process.exit_status}" if process.exit_status is not None else ""
            told.append(f"pid {process.pid} ({who}; {how}{code})")
    return f"ended while evidence was taken: {', '.join(told)}"


def _identity(target: Target | None) -> dict[str, object] | None:
    if target is None:
        return None
    return {
        "name": target.name,
        "deployment": target.deployment,
        "incarnation": target.incarnation,
        "engine": target.engine,
        "engine_version": target.engine_version,
        "world_size": target.world_size,
        "ranks": [process.rank for process in target.workers if process.rank is not None],
        "found_by": list(target.found_by),
        "nccl_loaded": target.nccl_loaded,
    }


def _plain(wishes: Wishes) -> dict[str, object]:
    values = {field.name: getattr(wishes, field.name) for field in fields(wishes)}
    values.pop("metrics_url")  # it may hold a password
    return {name: value.value if isinstance(value, Enum) else value for name, value in values.items()}


def _headline(
    target: Target | None, machine: Machine, request: Request, reports: tuple[Report, ...], notes: list[str]
) -> tuple[str, ...]:
    """Whose evidence it is, what matters most, and what was not done."""
    lines = []
    if target is None:
        wanted = request.instance or (f"pid {', '.join(map(str, request.pids))}" if request.pids else "instance")
        lines.append(
            f"no {wanted} was found on {machine.hostname}: only what the node itself says was saved (topology, driver, "
            "counters, kernel log)"
        )
    else:
        ranks = [process.rank for process in target.workers if process.rank is not None]
        world = f" of {target.world_size}" if target.world_size else ""
        lines.append(
            f"instance {target.name} ({target.engine or 'engine unknown'}) on {target.host}: "
            f"{len(target.workers)} worker(s), {ranks_text(ranks) if ranks else 'no rank known'}{world}"
        )
        if target.ended is not None and target.ended.story:
            lines = [
                f"instance {target.name} on {target.host} has ended, as its supervisor has written down: "
                f"{target.ended.story}; what incarnation {target.incarnation} left was taken"
            ]
        elif not target.workers:
            lines.append("no process with a rank lives here: only what ended ones have left could be taken of them")
        elif target.nccl_loaded is False:
            lines.append("no process of it has NCCL loaded: there is no RAS to ask and no NCCL log to expect")
    late = [report.name for report in reports if report.outcome.ending is Ending.TIMED_OUT]
    if late:
        lines.append(f"not ended in time: {', '.join(late)}; what they had brought is kept")
    return (*lines, *notes)
