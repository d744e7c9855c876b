"""JSON lines of looks at network ports (`network-counters.jsonl` of a bundle) -> one `NetworkTrack` per host and port.

`{"time": 1795986510.2, "host": "192.0.2.2", "kind": "rdma", "device": "mlx5_0", "port": 1, "state": "4: ACTIVE",
"counters": {"port_xmit_data": 12790038, "link_downed": 0}}`; Ethernet has `"kind": "ethernet", "port": null`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.json_fields import number, unix_seconds
from rankmuster.model.network import NetworkTrack, PortKind
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

COUNTER_MAX = 2.0**64
"""Counters of /sys are at most 64 bits wide; a larger number is damage."""
MAX_COUNTERS = 512
"""Counters of one port; mlx5 has about 60."""
MAX_TRACKS = 4096

_WINDOW = 8192
_KIND = re.compile(rb'"kind"\s*:\s*"(?:rdma|ethernet)"')
_KEYS = (_KIND, re.compile(rb'"counters"\s*:\s*\{'), re.compile(rb'"device"\s*:\s*"'), re.compile(rb'"time"\s*:'))


@dataclass(frozen=True, slots=True)
class _Look:
    host: str | None
    device: str
    port: int | None
    kind: PortKind
    time: float
    state: str | None
    counters: dict[str, float]


def recognises(blob: Blob) -> bool:
    """JSON with a port's kind, device, time and counters in the first 8 KiB."""
    head = blob.data[:_WINDOW]
    return head.lstrip()[:1] == b"{" and all(key.search(head) is not None for key in _KEYS)


def read(blob: Blob) -> Reading:
    """One track per host and port, ordered by host, kind, device and port."""
    host = names.host_of(blob.path)
    tracks: dict[tuple[str, str, str, int], list[_Look]] = {}
    bad: list[int] = []
    for line_number, line in text.lines(blob.data):
        if not line.strip():
            continue
        look = _look(line, host)
        key = (look.host or "", look.kind.value, look.device, look.port or 0) if look is not None else None
        if look is None or key is None or (key not in tracks and len(tracks) >= MAX_TRACKS):
            bad.append(line_number)
        else:
            tracks.setdefault(key, []).append(look)
    known = sum(map(len, tracks.values()))
    problems: tuple[Problem, ...] = ()
    if bad:
        message = f"{len(bad)} line(s) are no look at a port with a time (first: line {bad[0]}); {known} were used"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(_track(blob.path, tracks[key]) for key in sorted(tracks)), problems, known)


def _look(line: str, host: str | None) -> _Look | None:
    try:
        raw = json.loads(line, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None
    if not isinstance(raw, dict):
        return None
    time, device, kind = unix_seconds(raw.get("time")), raw.get("device"), raw.get("kind")
    counters = raw.get("counters")
    if time is None or not isinstance(device, str) or not device or not isinstance(counters, dict):
        return None
    if kind not in (PortKind.RDMA.value, PortKind.ETHERNET.value):
        return None
    own, state = raw.get("host"), raw.get("state")
    return _Look(
        own if isinstance(own, str) and own else host,
        device,
        number(raw.get("port"), most=255),
        PortKind(kind),
        time,
        state if isinstance(state, str) and state else None,
        {
            name: float(value)
            for name, value in list(counters.items())[:MAX_COUNTERS]
            if isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < COUNTER_MAX
        },
    )


def _track(source: str, looks: Sequence[_Look]) -> NetworkTrack:
    ordered = sorted(looks, key=lambda look: look.time)
    first = ordered[0]
    # In order of first mention: the same text gives the same value, also in its parts' order.
    named = dict.fromkeys(name for look in ordered for name in look.counters)
    counters = list(named)[:MAX_COUNTERS]  # names that never repeat would cost the square of the looks
    return NetworkTrack(
        source=source,
        host=first.host,
        device=first.device,
        port=first.port,
        kind=first.kind,
        time=np.array([look.time for look in ordered], dtype=np.float64),
        states=tuple(look.state for look in ordered),
        counters={
            name: np.array([look.counters.get(name, math.nan) for look in ordered], dtype=np.float64)
            for name in counters
        },
    )


READER = Reader("network counters", Plane.HARDWARE, ReaderKind.DOCUMENT, recognises, read)
