"""What a caller may ask for: the end of one incarnation, or the start of the next. Each is done once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

from rankmuster.adapters import supervisor_wire as wire
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.proc import Proc
from rankmuster.model.incident import Answer, Ending
from rankmuster.model.run_record import Operation
from rankmuster.supervise import naming, processes
from rankmuster.supervise.group import HostGroup, Outcome
from rankmuster.supervise.launch import CannotLaunch
from rankmuster.supervise.left import told
from rankmuster.supervise.start_environment import BadWish, check_variables

GPU_SHARE = 0.25
"""Of the time of an ending, kept for GPU memory to come free after the processes are gone."""

GRACE_SHARE = 1 / 3
"""Of the time of an ending, at most so much is given to those that end well."""

RANKS = "+ranks-"
"""`watch` appends it, and when the youngest rank began, where somebody has replaced all ranks of one incarnation."""


@dataclass(frozen=True, slots=True)
class Wish:
    """As `model.incident.StartWish`, checked."""

    environment: Mapping[str, str]
    avoid: tuple[str, ...]
    suspect: str | None


def read_wish(raw: object) -> Wish:
    """Raises NotUnderstood."""
    if raw is None:
        return Wish({}, (), None)
    if not isinstance(raw, dict):
        raise wire.NotUnderstood("'wish' is no object")
    avoid = raw.get("avoid") or []
    if not isinstance(avoid, list) or not all(isinstance(one, str) for one in avoid):
        raise wire.NotUnderstood("'avoid' is no list of names")
    try:
        environment = check_variables(raw.get("environment") or {})
    except BadWish as error:
        raise wire.NotUnderstood(str(error)) from error
    return Wish(environment, tuple(avoid), wire.optional_text(raw, "suspect", 100))


def terminate(
    group: HostGroup,
    incarnation: str | None,
    operation: str,
    deadline: Deadline,
    grace: float,
    hurry: Callable[[], bool],
) -> Answer:
    """Ends that incarnation, or the one that runs where none is named. Another one is never touched."""
    earlier = group.record.done(operation)
    if earlier is not None:
        if earlier.verb != "terminate":
            return _refused(f"the operation {operation} was a {earlier.verb}")
        incarnation = earlier.incarnation
    current = group.incarnation
    if current is None:
        return _done("nothing was started yet")
    base, _, since = (incarnation or current).partition(RANKS)
    if base != current:
        if base in group.record.earlier:
            return _done(f"incarnation {base} has ended already; {current} came after it", incarnation=base)
        if naming.of_another_boot(base, group.record.boot):
            return _done(f"incarnation {base} was of an earlier boot of {group.host}", incarnation=base)
        return _refused(f"incarnation {base} is not known here; {current} is what ran last, and is not touched")
    if since and group.living and (why := _younger(group, since)):
        return _refused(f"incarnation {incarnation} is not what runs: {why}")
    group.remember(Operation(name=operation, verb="terminate", incarnation=base))
    if group.living:
        came = group.end(
            min(grace, deadline.remaining() * GRACE_SHARE),
            deadline.before(deadline.remaining() * GPU_SHARE),
            by=f"whoever asked for {operation}",
            hurry=hurry,
        )
        answer = _of_ending(group, base, came, deadline)
    else:
        answer = _of_gpus(group, base, f"incarnation {base} has ended already", deadline)
    if answer.ending is Ending.DONE:
        group.remember(
            Operation(name=operation, verb="terminate", incarnation=base, ending=answer.ending.value, note=answer.note)
        )
    return answer


def _of_ending(group: HostGroup, incarnation: str, came: Outcome, deadline: Deadline) -> Answer:
    count = f"{came.ended.ended} process(es) of {incarnation} were told to end, {came.ended.killed} were killed"
    if came.left:
        data: dict[str, Any] = {
            "incarnation": incarnation,
            "node": group.host,
            "pids": [one.pid for one in came.left][: wire.MAX_PIDS],
            "processes": [
                {"pid": one.pid, "comm": one.comm, "state": one.state, "waits_in": one.waits_in}
                for one in came.left[:64]
            ],
        }
        story = f"{count}, and {len(came.left)} live on: {told(came.left)}"
        if any(one.state == "D" for one in came.left):
            return Answer(ending=Ending.NODE, note=f"{story}; only the node's owner can help {group.host}", data=data)
        if any(one.refused for one in came.left):
            return Answer(ending=Ending.FAILED, note=f"{story}; run the supervisor as their user", data=data)
        return Answer(ending=Ending.TIMED_OUT, note=f"{story}; it may be asked again", data=data)
    return _of_gpus(group, incarnation, f"{count}, and all are gone after {came.seconds:.1f} s", deadline)


def _of_gpus(group: HostGroup, incarnation: str, story: str, deadline: Deadline) -> Answer:
    said = group.gpus_freed(deadline)
    data: dict[str, Any] = {"incarnation": incarnation, "node": group.host, "gpus_free": said.free}
    if said.free is False:
        return Answer(
            ending=Ending.NODE,
            note=f"{story}, but GPU memory is not free: {said.note}; only the node's owner can help {group.host}",
            data={**data, "pids": list(said.pids)},
        )
    return Answer(ending=Ending.DONE, note=f"{story}; {said.note}", data=data)


def start(group: HostGroup, after: str | None, operation: str, wish: Wish) -> Answer:
    """A new incarnation where none runs."""
    earlier = group.record.done(operation)
    if earlier is not None and earlier.verb != "start":
        return _refused(f"the operation {operation} was a {earlier.verb}")
    current = group.incarnation
    if earlier is not None and earlier.ending is not None:
        state = "runs" if group.living and current == earlier.incarnation else "has ended since"
        return _done(
            f"this operation has started {earlier.incarnation} already, which {state}", incarnation=earlier.incarnation
        )
    if group.living:
        if after is not None and current == after.partition(RANKS)[0]:
            return _refused(f"incarnation {current} still runs: a second one is never started beside it; end it first")
        return _done(f"incarnation {current} runs already", incarnation=current)
    here = {group.host, group.host.partition(".")[0]}
    if here & {one for name in wish.avoid for one in (name, name.partition(".")[0])}:
        return _refused(f"this supervisor can start on {group.host} alone, which is to be avoided")
    try:
        name = group.start(operation, wish.environment, wish.suspect)
    except BadWish as error:
        return _refused(str(error))
    except CannotLaunch as error:
        return Answer(ending=Ending.FAILED, note=str(error), data={"exit_status": error.status})
    note = f"incarnation {name} was started on {group.host}, profile: {group.profile}"
    group.remember(Operation(name=operation, verb="start", incarnation=name, ending=Ending.DONE.value, note=note))
    return _done(note, incarnation=name, profile=group.profile)


def _younger(group: HostGroup, since: str) -> str:
    """Why what runs is younger than what the watch has seen; empty where it is not."""
    try:
        seen = datetime.strptime(since, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return f"{since!r} is no time"
    proc = Proc(processes.PROC)
    ticks = processes.ticks_per_second()
    members = group.members()
    launcher = group.record.launcher
    workers = [one for one in members.values() if launcher is not None and one.parent == launcher.pid]
    youngest = max((proc.boot_time() + one.start_ticks / ticks for one in workers), default=0.0)
    # btime is of whole seconds, and so is the watch's stamp
    return f"its launcher has started processes since {since}" if youngest > seen + 2.0 else ""


def _done(note: str, **data: Any) -> Answer:
    return Answer(ending=Ending.DONE, note=note, data=data)


def _refused(note: str) -> Answer:
    return Answer(ending=Ending.REFUSED, note=note)
