"""Which processes of this node are a pod's: by the cgroup's path, which the kubelet writes, else by POD_UID.

The agent runs in the host's pid namespace: pids are the host's, as NVML has them; NSpid says which number a process has
in its pod.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect import bounded
from rankmuster.collect.find import titles
from rankmuster.collect.find.ranks import from_environ
from rankmuster.collect.find.seen import INSTANCE
from rankmuster.collect.node import cgroups
from rankmuster.collect.proc import NotAllowed, Proc

PATIENCE, TOTAL = 0.5, 3.0
"""Seconds for one process's environment, whose lock a process that hangs in a driver may hold; and for all."""

PAUSE = "pause"
"""The sandbox's own process, which is no part of what the pod runs."""


@dataclass(frozen=True, slots=True)
class PodHere:
    """`pids`: the host's. `engine`: of them those that are an instance's by their own words; our sidecar is none of it.
    `name`, `namespace`: as its environment says, empty where it does not."""

    uid: str
    pids: tuple[int, ...]
    engine: tuple[int, ...]
    name: str = ""
    namespace: str = ""


def pods_here(root: Path, wanted: Iterable[str] | None = None) -> dict[str, PodHere]:
    """UID -> pod, for pods that have a process here. `root`: of the host's /proc. `wanted`: only these."""
    proc = Proc(root)
    only = None if wanted is None else set(wanted)
    by_uid: dict[str, list[int]] = defaultdict(list)
    unknown: list[int] = []
    for pid in proc.pids():
        uid = cgroups.pod_uid(root / str(pid))
        if uid is None:
            unknown.append(pid)
        elif only is None or uid in only:
            by_uid[uid].append(pid)
    missing = None if only is None else only - by_uid.keys()
    environs = _environs(proc, [pid for pids in by_uid.values() for pid in pids])
    if missing is None or missing:
        for pid, environ in _environs(proc, unknown).items():
            uid = environ.get("POD_UID", "")
            if uid and (missing is None or uid in missing):
                by_uid[uid].append(pid)
                environs[pid] = environ
    return {uid: _pod(uid, proc, sorted(pids), environs) for uid, pids in by_uid.items()}


def _environs(proc: Proc, pids: list[int]) -> dict[int, dict[str, str]]:
    def read(pid: int) -> dict[str, str]:
        try:
            return dict(proc.environ(pid) or {})
        except (NotAllowed, OSError):
            return {}

    return dict(bounded.each(pids, read, patience=PATIENCE, total=TOTAL).results)


def _pod(uid: str, proc: Proc, pids: list[int], environs: dict[int, dict[str, str]]) -> PodHere:
    kept: list[int] = []
    titled: list[int] = []
    for pid in pids:
        try:
            stat, command = proc.stat(pid), proc.command(pid)
        except (NotAllowed, OSError):
            continue
        if stat is None or stat.kernel_thread or stat.comm == PAUSE:
            continue
        kept.append(pid)
        known = titles.recognise(command or (), stat.comm)
        if (known is not None and known.engine) or from_environ(environs.get(pid, {})) is not None:
            titled.append(pid)
    marked = [pid for pid in kept if environs.get(pid, {}).get(INSTANCE)]

    def said(name: str) -> str:
        return next((found for pid in kept if (found := environs.get(pid, {}).get(name))), "")

    return PodHere(
        uid=uid,
        pids=tuple(kept),
        engine=tuple(marked or titled),
        name=said("POD_NAME"),
        namespace=said("POD_NAMESPACE"),
    )
