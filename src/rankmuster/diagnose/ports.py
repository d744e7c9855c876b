"""What the network ports did between a collector's looks: counters that rose, states that were lost, bytes that moved.

A counter belongs to its port, not to a process: what rose may be another job's. So nothing here accuses by itself.
Sources: sysfs-class-infiniband, mlx5 `counters.c`, EFA's `hw_counters` (linux).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.memo import once
from rankmuster.model.nccllog import NcclInterface
from rankmuster.model.network import NetworkTrack, PortKind

LINK_ERRORS = (
    "link_downed",
    "link_error_recovery",
    "symbol_error",
    "local_link_integrity_errors",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "rx_icrc_encapsulated",
    "local_ack_timeout_err",
    "req_transport_retries_exceeded",
    "roce_adp_retrans_to",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
    "carrier_changes",
    "tx_carrier_errors",
)
"""Counters that a link or a path in trouble makes rise. Those of reordering are not among them: adaptive routing makes
them rise in health."""

CONGESTION = (
    "port_xmit_wait",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "rp_cnp_handled",
    "roce_slow_restart",
    "roce_slow_restart_trans",
)
"""Counters that a crowded path makes rise: it is slow, and nothing is broken."""

WORD = 2.0**32
"""mlx5's Q counters are 32 bits wide."""
WRAPS_FROM = 0.75 * WORD
"""A counter that falls from above this has wrapped; from below, its driver was loaded anew and the step is unknown."""


@dataclass(frozen=True, slots=True)
class Port:
    """One port between its first look and its last. `errors`, `congestion`: counter -> by how much it rose.

    `lost`: it was active and is not any more, or is not at all though NCCL uses it; `state` is the last one.
    `rate`: bytes per second, both ways together; None where not counted. `used`: NCCL said that it uses it (None: NCCL
    named no port at all).
    """

    track: NetworkTrack
    seconds: float
    errors: dict[str, int]
    congestion: dict[str, int]
    lost: bool
    state: str | None
    rate: float | None
    used: bool | None

    @property
    def label(self) -> str:
        """`mlx5_0 port 1 of 192.0.2.2`."""
        port = f" port {self.track.port}" if self.track.port is not None else ""
        return f"{self.track.device}{port}" + (f" of {self.track.host}" if self.track.host else "")


@once
def ports(context: Context) -> tuple[Port, ...]:
    """All ports of which there are two looks; those that NCCL does not use where it says which it does are left out."""
    named = {
        name.partition(":")[0]
        for line in context.evidence.of(NcclInterface)
        if line.role != "bootstrap"
        for name, _ in line.interfaces
    }
    found = []
    for track in context.evidence.of(NetworkTrack):
        used = None if not named else track.device in named
        if len(track.time) < 2 or track.time[-1] <= track.time[0] or used is False:
            continue
        found.append(_port(track, used))
    return tuple(found)


def _port(track: NetworkTrack, used: bool | None) -> Port:
    seconds = float(track.time[-1] - track.time[0])
    sent, received = track.bytes_of(sent=True), track.bytes_of(sent=False)
    moved = [_rise(values, wraps=False) for values in (sent, received) if values is not None]
    known = [state for state in track.states if state is not None]
    up = [is_active(state) for state in known]
    return Port(
        track=track,
        seconds=seconds,
        errors=_risen(track, LINK_ERRORS),
        congestion=_risen(track, CONGESTION),
        lost=bool(up) and not up[-1] and (any(up) or used is True),
        state=known[-1] if known else None,
        rate=sum(moved) / seconds if moved else None,
        used=used,
    )


def is_active(state: str) -> bool:
    """`4: ACTIVE` of an RDMA port, `up` of an interface; `unknown` is what virtual ones say that work."""
    word = state.rpartition(":")[2].strip().lower()
    return word.startswith("active") or word in ("up", "unknown")


def _risen(track: NetworkTrack, names: tuple[str, ...]) -> dict[str, int]:
    rdma = track.kind is PortKind.RDMA
    found = {}
    for name in names:
        values = track.counters.get(name)
        rise = _rise(values, wraps=rdma) if values is not None else 0.0
        if rise >= 1:
            found[name] = int(rise)
    return found


def _rise(values: np.ndarray[tuple[int], np.dtype[np.float64]], wraps: bool) -> float:
    """By how much a counter rose over all looks. A fall is a wrap where it can be one, else a reset."""
    known = values[np.isfinite(values)]
    steps = np.diff(known)
    if wraps:
        wrapped = (steps < 0) & (known[:-1] >= WRAPS_FROM) & (known[:-1] < WORD)
        steps = np.where(wrapped, steps + WORD, steps)
    return float(steps[steps > 0].sum())
