"""Kernel: crashes and out-of-memory kills of processes that no rank is known for.

Blind to which rank it was; a process of another program by the same name looks alike, so it stays a lead wherever the
instance's own processes are known.
"""

from __future__ import annotations

import re

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.finding import Finding, accuse, quoted
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import OutOfMemory, SignalDeath, WorkerDeath
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.kernel import KernelEvent, KernelEventKind, OomKill
from rankmuster.model.plane import Plane

NAME = "process-exit"

WORKERS = re.compile(r"python|vllm|sglang|trtllm|tensorrt|triton|pt_main|ray::|torchrun|_perf$", re.IGNORECASE)
"""Names (cut to 15 characters by the kernel) of processes that are ranks or hold them."""


KILLED = re.compile(r"\bwas killed\b|oom[-_]kill event|running low on memory")
"""In texts about memory: somebody has been ended, not only refused."""


def segfaults(context: Context, ranks: tuple[int, ...]) -> list[KernelEvent]:
    """Segmentation faults of these ranks, by the numbers that the roster or the reports of their deaths give."""
    pids = {context.job.rank(rank).pid for rank in ranks}
    pids |= {death.pid for death in context.evidence.of(WorkerDeath) if death.rank in ranks}
    pids |= {death.victim_pid for death in context.evidence.of(SignalDeath) if death.victim_rank in ranks}
    return [event for event in _crashes(context) if event.pid is not None and event.pid in pids]


def nameless(context: Context) -> list[Finding]:
    """A kill or a crash that no rank is known for."""
    kills = [kill for kill in context.evidence.of(OomKill) if WORKERS.search(kill.process or "")]
    crashes = [event for event in _crashes(context) if WORKERS.search(event.process or "")]
    if not kills and not crashes:
        return _out_of_memory(context)
    first: OomKill | KernelEvent = kills[0] if kills else crashes[0]
    who = f"{first.process or 'a process'} (pid {first.pid})"
    if kills:
        limit = "its container's memory limit" if kills[0].cgroup else "the node's memory"
        statement = (
            f"The kernel's out-of-memory killer ended {who}: {quoted(first.text)}. It had reached {limit}: raise the "
            "limit, or use less host memory (pinned buffers, loader workers, swap space)"
        )
    else:
        statement = f"{who} crashed: {quoted(first.text, 240)}"
    events: list[OomKill | KernelEvent] = [*kills, *crashes]
    evidence = tuple(event.origin.reference for event in events[:6])
    wanted = "which rank that process was: the numbers of all ranks as the host sees them"
    if any(rank.pid is not None for rank in context.roster.ranks):
        # The instance's processes are known and it is none of them, unless its number is another namespace's.
        return [Finding(NAME, Plane.KERNEL, f"{statement}; no rank has that number", evidence, would_decide=wanted)]
    host = context.roster.host(first.origin.host)
    # Many programs are called python. Beside an instance that is known to have run here, a crash may be any other's; of
    # a node whose log was taken without an instance being found, it is not even known that there was one.
    surveyed = any(manifest.outcomes for manifest in context.evidence.of(ManifestFacts))
    if not kills and context.facts is None and surveyed:
        return [Finding(NAME, Plane.KERNEL, f"{statement}; no instance is known here", evidence, would_decide=wanted)]
    lead_only = not kills and context.facts is not None
    accusation = accuse(
        Subkind.KILLED,
        Confidence.POSSIBLE if lead_only else Confidence.LIKELY,
        hosts=(host,) if host else (),
        scope=Scope.NODE,
        at=context.time(first.origin.stamp),
    )
    return [Finding(NAME, Plane.KERNEL, statement, evidence, accusation, would_decide=wanted)]


def _out_of_memory(context: Context) -> list[Finding]:
    """What Ray or Slurm say of a process that they or the kernel ended for its host's memory."""
    told = [line for line in context.evidence.of(OutOfMemory) if line.device == "host" and KILLED.search(line.text)]
    if not told:
        return []
    first = told[0]
    statement = (
        f"A process was ended for its host's memory: {quoted(first.text, 240)}. Raise the limit or use less of it"
    )
    accusation = accuse(
        Subkind.KILLED,
        Confidence.LIKELY,
        suspects=(first.origin.rank,) if first.origin.rank is not None else (),
        why={first.origin.rank: "reported a process ended for its host's memory"}
        if first.origin.rank is not None
        else {},
        scope=Scope.NODE,
        at=context.time(first.origin.stamp),
    )
    return [Finding(NAME, Plane.FRAMEWORK_LOG, statement, (first.origin.reference,), accusation)]


def _crashes(context: Context) -> list[KernelEvent]:
    return [event for event in context.evidence.of(KernelEvent) if event.kind is KernelEventKind.SEGFAULT]
