"""A target as `instance.json` tells it; read by `rankmuster.evidence.instance`, described in docs/evidence.md."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.collect.find.seen import INCARNATION
from rankmuster.collect.target import ProcessOfInstance, Target

MAX_OTHERS = 2000
"""Processes without a rank that are listed: an instance has some dozens, a runaway one any number."""


def instance_facts(target: Target, now: float, environment: Mapping[str, str] | None = None) -> dict[str, object]:
    """The document. `now`: unix seconds of the look. `environment`: what the instance has set, already filtered by
    allow-list; None: filtered here.

    Where the instance has ranks on other nodes too, `incarnation` stands only if all nodes know the same one (our own
    marker); this node's own is `incarnation_here`, since bundles of several nodes are merged and must agree.
    """
    ranked: dict[int, ProcessOfInstance] = {}
    for process in target.processes:
        if process.rank is not None and (process.rank not in ranked or process.state != "Z"):
            ranked[process.rank] = process
    for process in target.gone:
        if process.rank is not None:
            ranked.setdefault(process.rank, process)
    whole = target.world_size is None or len(ranked) >= target.world_size
    shared = whole or target.agreed or target.setting(INCARNATION) is not None
    named = set(map(id, ranked.values()))
    others = [process for process in (*target.processes, *target.gone) if id(process) not in named]
    return {
        "instance": target.name,
        "deployment": target.deployment,
        "incarnation": target.incarnation if shared else None,
        "incarnation_here": target.incarnation,
        "world_size": target.world_size,
        "started_at": _started(target),
        "last_look": now,
        "engine": target.engine,
        "engine_version": target.engine_version,
        "found_by": list(target.found_by),
        "processes": [_process(target, process) for _, process in sorted(ranked.items())],
        "without_rank": [_process(target, process) for process in others[:MAX_OTHERS]],
        "environment": dict(environment) if environment is not None else _environment(target),
    }


def _started(target: Target) -> float | None:
    times = [process.started_at for process in target.processes]
    if target.ended is not None:
        times.append(target.ended.began)
    return min(times, default=None)


def _process(target: Target, process: ProcessOfInstance) -> dict[str, object]:
    return {
        "rank": process.rank,
        "pid": process.inner_pid,
        "host": process.host or target.host,
        "gpu": process.gpus[0] if process.gpus else None,
        "gpu_uuid": process.gpu_uuids[0] if process.gpu_uuids else None,
        "exit_code": process.exit_status,
        "exited_at": process.exited_at,
        "role": process.role.value,
        "name": process.name,
        "state": process.state,
        "host_pid": process.host_pid,
        "local_rank": process.local_rank,
        "started_at": process.started_at,
    }


def _environment(target: Target) -> dict[str, str]:
    """What the allow-list lets through, of every process, ranks first; of values that differ, the lowest rank's."""
    from rankmuster.collect.strip.environment import allowed

    merged: dict[str, str] = {}
    for process in (*target.workers, *target.processes, *target.gone):
        for name, value in process.environ.items():
            merged.setdefault(name, value)
    return dict(allowed(merged))
