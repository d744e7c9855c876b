"""How the reports say things: who, when, how long, which ranks. One wording for terminal, HTML and Perfetto."""

from __future__ import annotations

import math
from datetime import datetime, timezone

from rankmuster.model.fault import Boundary, FaultClass, Role
from rankmuster.model.ranks_text import rank_ranges
from rankmuster.model.verdict import Suspect, Verdict
from rankmuster.report.inert import plain

MAX_NAMED = 4
"""Culprits that a headline names in full; more are told as ranges of ranks and the number of hosts."""

BOUNDARY_WORDS: dict[Boundary, str] = {
    Boundary.NONE: "nothing",
    Boundary.REQUEST: "the request only",
    Boundary.INSTANCE: "the instance (shed load; no process group is rebuilt)",
    Boundary.PROCESS_GROUP: "the whole process group: all ranks together, never one rank alone",
    Boundary.NODE: "the process group on other nodes; the node stays out until it passes admission",
    Boundary.CLUSTER: "more than one node: a class of nodes is affected",
}


def place(suspect: Suspect) -> str:
    """`host 10.0.0.7, pid 1519, GPU 2, pod x`: what is known of where it is; empty where nothing is."""
    parts = []
    if suspect.host is not None:
        parts.append(f"host {plain(suspect.host)}")
    if suspect.pid is not None:
        parts.append(f"pid {suspect.pid}")
    if suspect.gpu is not None:
        parts.append(f"GPU {plain(suspect.gpu)}")
    if suspect.pod is not None:
        parts.append(f"pod {plain(suspect.pod)}")
    return ", ".join(parts)


def who(suspect: Suspect) -> str:
    """`rank 2 (host 10.0.0.7, pid 1519, GPU 2)`; by kind and place where no rank is known."""
    where = place(suspect)
    if suspect.link is not None:
        return f"{suspect.kind.value} {plain(suspect.link)}"
    if suspect.rank is None:
        return f"{suspect.kind.value} ({where})" if where else suspect.kind.value
    return f"rank {suspect.rank} ({where})" if where else f"rank {suspect.rank}"


def of_role(verdict: Verdict, role: Role) -> list[Suspect]:
    """The suspects with that role, in the verdict's order."""
    return [suspect for suspect in verdict.suspects if suspect.role is role]


def named(suspects: list[Suspect]) -> str:
    """Up to `MAX_NAMED` in full, more as ranges of ranks with the number of hosts."""
    if len(suspects) <= MAX_NAMED:
        return ", ".join(who(suspect) for suspect in suspects)
    ranks = [suspect.rank for suspect in suspects if suspect.rank is not None]
    hosts = sorted({plain(suspect.host) for suspect in suspects if suspect.host is not None})
    text = f"ranks {rank_ranges(ranks)}" if ranks else f"{len(suspects)} of them"
    if hosts:
        text += f" (on {hosts[0]})" if len(hosts) == 1 else f" (on {len(hosts)} hosts: {', '.join(hosts[:MAX_NAMED])}"
        if len(hosts) > 1:
            text += ", ...)" if len(hosts) > MAX_NAMED else ")"
    return text


def class_name(verdict: Verdict) -> str:
    """`collective_desync/missing_enter`, in the schema's own words so that it can be searched for."""
    if verdict.subclass is None:
        return verdict.class_.value
    return f"{verdict.class_.value}/{verdict.subclass.value}"


def accused(verdict: Verdict) -> str:
    """`culprit rank 2 (...)`, else `suspects ...`, else that nobody is named."""
    culprits = of_role(verdict, Role.CULPRIT)
    if culprits:
        return f"{'culprit' if len(culprits) == 1 else 'culprits'} {named(culprits)}"
    suspects = of_role(verdict, Role.SUSPECT)
    if suspects:
        return f"{'suspect' if len(suspects) == 1 else 'suspects'} {named(suspects)}, no culprit"
    return "nobody to name" if verdict.class_ is FaultClass.HEALTHY else "no culprit named"


def clock(seconds: float | None, date: bool = False) -> str:
    """UTC time of day to the millisecond, with the date if asked; `unknown` for None and for times no clock shows."""
    if seconds is None or not math.isfinite(seconds):
        return "unknown"
    try:
        moment = datetime.fromtimestamp(seconds, tz=timezone.utc)
    except (OverflowError, OSError, ValueError):
        return "unknown"
    text = f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    return f"{moment:%Y-%m-%d} {text}" if date else text


def span(seconds: float) -> str:
    """A length of time in the unit a person would use: `340 us`, `22 ms`, `9.8 s`, `3 min 20 s`, `2 h 5 min`."""
    size = abs(seconds)
    if size < 0.001:
        return f"{seconds * 1e6:.0f} us"
    if size < 1:
        return f"{seconds * 1e3:.{0 if size >= 0.01 else 1}f} ms"
    if size < 60:
        return f"{seconds:.1f} s"
    if size < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s"
    return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min"


def rate_kib(kib_per_second: float) -> str:
    """A byte rate given in KiB/s, in the unit a person would use."""
    for unit in ("KiB/s", "MiB/s"):
        if abs(kib_per_second) < 1024:
            return f"{kib_per_second:.{0 if kib_per_second >= 10 or kib_per_second == 0 else 1}f} {unit}"
        kib_per_second /= 1024
    return f"{kib_per_second:.1f} GiB/s"


def story(verdict: Verdict) -> str:
    """The summary without the class that a headline beside it has already said."""
    return verdict.summary.removeprefix(f"{class_name(verdict)}: ")
