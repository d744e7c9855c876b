"""Which Xids follow from others: the first error of a node is worth more than the ten that it causes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from rankmuster.evidence.xid_table import (
    ALWAYS_SECONDARY,
    NVLINK5_VICTIMS,
    PEER_REPORTS,
    SAME_GPU_FOLLOWS,
    SECONDARY_TO_ANY,
)
from rankmuster.model.kernel import GpuAfter, Xid

NEIGHBOUR_SECONDS = 60.0
"""How far apart a cause and its companions are logged: a GSP time-out alone takes 6 to 45 s a call (gpud, AWS)."""

EITHER_ORDER = frozenset({48, 63, 64, 94, 95, 171, 172}) | NVLINK5_VICTIMS
"""The companions of 48 come from other parts of the driver in no fixed order, and so do the two ends of a link."""

_FALLEN_OFF_BUS = 79
_UNCORRECTABLE = 48
_CONSEQUENCES = ALWAYS_SECONDARY | SECONDARY_TO_ANY | PEER_REPORTS | {43}

_Gpu = tuple[str | None, str]


@dataclass(slots=True)
class _Seen:
    """The nearest line of each kind in the direction of the walk; two GPUs deep where any *other* GPU counts."""

    on_gpu: dict[tuple[_Gpu, int], Xid] = field(default_factory=dict)
    fatal_link: dict[str | None, Xid] = field(default_factory=dict)
    lost: dict[str | None, list[Xid]] = field(default_factory=dict)
    roots: dict[str | None, list[Xid]] = field(default_factory=dict)

    def add(self, xid: Xid) -> None:
        host = xid.origin.host
        self.on_gpu[_gpu(xid), xid.code] = xid
        if xid.code in NVLINK5_VICTIMS and xid.fatal:
            self.fatal_link[host] = xid
        if xid.code == _FALLEN_OFF_BUS:
            _remember(self.lost.setdefault(host, []), xid)
        if xid.code not in _CONSEQUENCES:
            _remember(self.roots.setdefault(host, []), xid)

    def causes(self, xid: Xid) -> Iterable[Xid]:
        """What `xid` would follow from, were it near enough."""
        gpu, host = _gpu(xid), xid.origin.host
        for code in SAME_GPU_FOLLOWS.get(xid.code, ()):
            if (gpu, code) in self.on_gpu:
                yield self.on_gpu[gpu, code]
        if xid.code in PEER_REPORTS:
            yield from (x for x in self.roots.get(host, ()) if x.bus_id != xid.bus_id)
        if xid.code in NVLINK5_VICTIMS and xid.fatal is False:
            if host in self.fatal_link:
                yield self.fatal_link[host]
            yield from (x for x in self.lost.get(host, ()) if x.bus_id != xid.bus_id)

    def companion(self, xid: Xid) -> Xid | None:
        """The 95 or 94 beside a 48, the graver one first."""
        for code in (95, 94):
            other = self.on_gpu.get((_gpu(xid), code))
            if other is not None and _near(xid, other):
                return other
        return None


def mark(xids: Sequence[Xid]) -> list[Xid]:
    """The same Xids in the same order, with `secondary` set, and what is left after a 48 told by its companions."""
    others = {x.code for x in xids} - SECONDARY_TO_ANY
    secondary = [
        x.code in ALWAYS_SECONDARY or x.caused_by is not None or (x.code in SECONDARY_TO_ANY and bool(others))
        for x in xids
    ]
    companions: list[list[Xid]] = [[] for _ in xids]
    for backwards in (False, True):
        seen = _Seen()
        for i in range(len(xids) - 1, -1, -1) if backwards else range(len(xids)):
            xid = xids[i]
            if not backwards or xid.code in EITHER_ORDER:
                secondary[i] = secondary[i] or any(_near(xid, cause) for cause in seen.causes(xid))
                beside = seen.companion(xid) if xid.code == _UNCORRECTABLE else None
                if beside is not None:
                    companions[i].append(beside)
            seen.add(xid)
    return [
        replace(x, secondary=s, after=_graver(c) if c else x.after)
        for x, s, c in zip(xids, secondary, companions, strict=True)
    ]


def _graver(companions: list[Xid]) -> GpuAfter:
    return max(companions, key=lambda x: x.code).after


def _gpu(xid: Xid) -> _Gpu:
    return (xid.origin.host, xid.bus_id)


def _remember(nearest: list[Xid], xid: Xid) -> None:
    nearest[:] = [xid, *(x for x in nearest if x.bus_id != xid.bus_id)][:2]


def _near(xid: Xid, cause: Xid) -> bool:
    """Close in time; without comparable stamps the order of the lines has to do."""
    a, b = xid.origin.stamp, cause.origin.stamp
    return a is None or b is None or a.kind is not b.kind or abs(a.seconds - b.seconds) <= NEIGHBOUR_SECONDS
