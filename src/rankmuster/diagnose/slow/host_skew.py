"""Who enqueues late, by host clocks: all that dumps without timing say of speed. It convicts nobody.

A late enqueue is no late arrival: the GPU's queue may hold work for milliseconds, and a host that runs ahead hides its
delays. Clocks of different hosts are set right as `diagnose.host_clocks` estimates them, with the error that leaves.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.slow.limits import SlowLimits
from rankmuster.diagnose.slow.matrix import build
from rankmuster.diagnose.slow.spread import quantiles
from rankmuster.model.flight import Floats
from rankmuster.model.job import Group
from rankmuster.model.slow import HostSkew, distribution


def of_group(context: Context, group: Group, limits: SlowLimits) -> list[HostSkew]:
    """A row per rank whose clock can be compared with the others'."""
    matrix = build(context.table, group, timed=False)
    if matrix is None or len(matrix.numbers) < limits.skew_fewest:
        return []
    hosts = {rank: context.job.rank(rank).host for rank in matrix.ranks}
    unknown = any(host is None for host in hosts.values())
    shifts = {} if unknown else _shifts(hosts, context.job.clock_offsets)
    rows = [row for row, rank in enumerate(matrix.ranks) if unknown or hosts[rank] in shifts]
    if len(rows) < 2:
        return []
    # Differences to one row keep digits that sums of unix seconds would lose.
    times: Floats = matrix.values[rows] - matrix.values[0]
    if unknown:
        times -= np.median(times, axis=1, keepdims=True)
    else:
        times += np.array([shifts[hosts[matrix.ranks[row]] or ""][0] for row in rows])[:, None]
    behind = (times - times.min(axis=0)) * 1e3
    found = []
    for row, spread in zip(rows, quantiles(behind), strict=True):
        rank = matrix.ranks[row]
        error = 0.0 if unknown else shifts[hosts[rank] or ""][1] * 1e3
        said = distribution(behind.shape[1], spread)
        if said is not None:
            found.append(HostSkew(group.key, group.label, rank, said, error, unknown))
    return found


def _shifts(
    hosts: Mapping[int, str | None], offsets: Mapping[str, tuple[float, float]]
) -> dict[str, tuple[float, float]]:
    """host -> (seconds to add, error); one host needs none, of several those without an estimate are left out."""
    names = {host for host in hosts.values() if host is not None}
    if len(names) == 1:
        return dict.fromkeys(names, (0.0, 0.0))
    return {host: offsets[host] for host in names if host in offsets}
