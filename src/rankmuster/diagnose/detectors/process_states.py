"""Platform: processes as the node's kernel sees them: stopped by a signal, dead and not collected, stuck in the kernel.

A process that is stopped at both looks runs nothing, whatever its peers wait for; one look may have met a profiler.
Blind to what a process that runs does: a wait inside a kernel launch and an endless loop both use the processor.
"""

from __future__ import annotations

from collections.abc import Iterable

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.departed import Watched, watched
from rankmuster.diagnose.ends import AFTER_SHOCK_SIGNALS, code_text
from rankmuster.diagnose.finding import Finding, accuse, counted, verb
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.node import CgroupLook, NodeState, NodeTask, TaskState
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "process-states"


def detect(context: Context) -> list[Finding]:
    """Stopped ranks, ended ones, those stuck in the kernel, and what the node has run out of."""
    states = context.evidence.of(NodeState)
    workers = list(watched(context))
    return [
        *_stopped(context, workers),
        *_stopped_beside(context, states),
        *_ended(context, workers),
        *_stuck(workers),
        *_resources(context, states),
    ]


def _stopped(context: Context, workers: list[Watched]) -> list[Finding]:
    least = context.limits.stopped_seconds
    stopped = [w for w in workers if w.task.always(TaskState.STOPPED) and w.task.seconds >= least]
    if not stopped:
        return []
    ranks = tuple(worker.rank for worker in stopped)
    others = tuple(worker.rank for worker in workers if worker.rank not in ranks and worker.alive)
    seconds = min(worker.task.seconds for worker in stopped)
    statement = (
        f"{ranks_text(ranks).capitalize()}: the process is stopped by a signal (state T) at every look, "
        f"{seconds:.0f} s apart"
    )
    evidence = tuple(dict.fromkeys(worker.source for worker in stopped))
    if not others:
        statement += (
            ": all processes whose state is known are, so somebody has suspended them (Slurm's preemption, kill -STOP)"
        )
        return [Finding(NAME, Plane.PLATFORM, statement, evidence)]
    statement += f", while {ranks_text(others)} {verb(others, 'is', 'are')} not. SIGCONT lets it run again"
    few = len(ranks) <= len(others)
    accusation = accuse(
        Subkind.UNRESPONSIVE,
        Confidence.LIKELY,
        culprits=ranks if few else (),
        suspects=() if few else ranks,
        victims=others if few else (),
        why=dict.fromkeys(ranks, "is stopped by a signal (state T): its process runs nothing"),
        scope=Scope.RANK,
    )
    return [Finding(NAME, Plane.PLATFORM, statement, evidence, accusation)]


def _stopped_beside(context: Context, states: Iterable[NodeState]) -> list[Finding]:
    """Engines, servers and helpers, which have no rank to be named by: all ranks may wait for one of them."""
    found = []
    for state in states:
        stopped = [
            task
            for task in state.tasks
            if task.rank is None
            and task.role != "worker"
            and task.always(TaskState.STOPPED)
            and task.seconds >= context.limits.stopped_seconds
        ]
        if stopped:
            names = ", ".join(f"{task.pid} ({task.name or task.role or 'unnamed'})" for task in stopped[:4])
            statement = (
                f"{verb(stopped, 'Process', 'Processes')} {names} of the instance {verb(stopped, 'is', 'are')} stopped "
                "by a signal (state T) at every look: the ranks may wait for work that comes from there"
            )
            found.append(Finding(NAME, Plane.PLATFORM, statement, (state.source,)))
    return found


def _ended(context: Context, workers: list[Watched]) -> list[Finding]:
    """Ranks that had ended while the others of the node were still there."""
    ended = [worker for worker in workers if worker.ended]
    living = tuple(worker.rank for worker in workers if worker.alive)
    if not ended:
        return []
    ranks = tuple(worker.rank for worker in ended)
    how = ", ".join(_how(worker.task) for worker in ended[:8])
    there = f", while {ranks_text(living)} {verb(living, 'was', 'were')} still there" if living else ""
    statement = f"{ranks_text(ranks).capitalize()} had ended at the last look ({how}){there}"
    evidence = tuple(dict.fromkeys(worker.source for worker in ended))
    told = any(context.job.rank(rank).exit_code is not None for rank in ranks)
    killed = all(
        (code := worker.task.exit_code) is not None and code < 0 and -code not in AFTER_SHOCK_SIGNALS
        for worker in ended
    )
    alarm = context.timeouts or context.first_alarm is not None
    if told or alarm or not killed or not living or len(ranks) > len(living):
        # An exit with a plain code may be a victim's: it had an error of another's making.
        return [Finding(NAME, Plane.PLATFORM, statement, evidence)]
    # Whoever nobody saw may have gone first: launchers kill the rest.
    unseen = tuple(sorted(set(context.world) - {*ranks, *living}))
    if unseen:
        statement += f"; nobody saw {ranks_text(unseen)} alive, so that somebody may have gone before"
    accusation = accuse(
        Subkind.KILLED,
        Confidence.LIKELY,
        culprits=() if unseen else ranks,
        suspects=ranks if unseen else (),
        victims=() if unseen else living,
        why={worker.rank: f"has ended ({_how(worker.task)}), and its peers are still there" for worker in ended},
        scope=Scope.RANK,
    )
    return [Finding(NAME, Plane.PLATFORM, statement, evidence, accusation)]


def _how(task: NodeTask) -> str:
    code = task.exit_code
    if code is None:
        return "not there any more" if task.looks[-1].state is TaskState.GONE else "how is not said"
    return code_text(code) if code >= 0 else f"killed by {code_text(code)}"


def _stuck(workers: list[Watched]) -> list[Finding]:
    """Main threads that waited in the kernel without a break, which a driver or a file system does to them."""
    found = []
    for worker in workers:
        first, last = worker.task.looks[0], worker.task.looks[-1]
        still = first.switches is not None and first.switches == last.switches
        if worker.task.always(TaskState.UNINTERRUPTIBLE) and still:
            channel = last.wait_channel or "an unnamed place"
            statement = (
                f"Rank {worker.rank}'s main thread has waited in the kernel for {worker.task.seconds:.0f} s without a "
                f"break (state D, in {channel}): for a driver, a device or a file system"
            )
            wanted = f"the kernel's stack of rank {worker.rank} (/proc/PID/stack, as root) and the kernel log"
            found.append(Finding(NAME, Plane.PLATFORM, statement, (worker.source,), would_decide=wanted))
    return found


def _resources(context: Context, states: Iterable[NodeState]) -> list[Finding]:
    """What was used up: memory of a container, shared memory."""
    found = []
    for state in states:
        told = [*_oom(state.cgroups)]
        for memory in state.shared_memory:
            if memory.pids and memory.free_bytes < min(context.limits.shared_memory_bytes, memory.size_bytes):
                size, free = memory.size_bytes >> 20, memory.free_bytes >> 20
                who = counted(len(memory.pids), "process", "processes")
                told.append(f"shared memory of {who} is full ({free} of {size} MiB free), and NCCL needs it")
        if told:
            where = f"On {state.host}: " if state.host else ""
            found.append(Finding(NAME, Plane.PLATFORM, f"{where}{'; '.join(told)}", (state.source,)))
    return found


def _oom(looks: tuple[CgroupLook, ...]) -> list[str]:
    """Kills that were counted, those between the looks first of all; a group above counts those below it, too."""
    groups: dict[str, list[CgroupLook]] = {}
    for look in looks:
        if look.oom_kills:
            groups.setdefault(look.path, []).append(look)
    if not groups:
        return []
    path = max(groups, key=len)
    counts = [look.oom_kills or 0 for look in sorted(groups[path], key=lambda look: look.time)]
    earlier = min(
        (look.oom_kills or 0 for look in looks if look.path == path and look.oom_kills is not None), default=0
    )
    text = f"the kernel has killed {counted(counts[-1], 'process', 'processes')} of {path} for want of memory"
    return [f"{text}, {counts[-1] - earlier} of them between the looks" if counts[-1] > earlier else text]
