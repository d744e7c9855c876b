"""JSON lines of samples per GPU (`gpu-counters.jsonl` of a bundle) -> one `GpuTrack` per host and GPU.

`{"time": 1795986510.2, "host": "192.0.2.2", "gpu": 0, "sm_util_percent": 0, "memory_util_percent": 0, "power_w": 78.4,
"sm_clock_mhz": 345, "nvlink_tx_kib": 12790038, "nvlink_rx_kib": 7427537, "pids": [4283]}`, and where a collector has
them `pcie_*_kib` and `rdma_*_kib`. Any key but time and gpu may be absent or null.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rankmuster.evidence import json_text, names, text, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.model.hardware import Floats, GpuTrack
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.stamp import StampKind

MILLISECONDS = 1e11
"""Times above this are unix milliseconds (as seconds they would be past the year 5000)."""

_LARGEST = 1e18
"""Larger values are damage: a link at 1 TB/s takes thirty thousand years to count that many KiB."""

MAX_GPU = 1024
"""GPU indices of one host; larger ones are damage."""

_COUNTERS = ("nvlink_tx", "nvlink_rx", "pcie_tx", "pcie_rx", "rdma_tx", "rdma_rx")
# NVML and nvidia-smi write KiB and call it KB.
_UNITS = (("_kib", 1.0), ("_kb", 1.0), ("_bytes", 1 / 1024))

_GAUGES: Mapping[str, tuple[str, ...]] = {
    "sm_percent": ("sm_util_percent", "sm_percent", "gpu_util_percent"),
    "memory_percent": ("memory_util_percent", "memory_percent"),
    "power_w": ("power_w",),
    "clock_mhz": ("sm_clock_mhz", "clock_mhz"),
}
_TIME = ("time", "timestamp")
_GPU = ("gpu", "gpu_index", "index")
_UUID = ("uuid", "gpu_uuid")
_BUS = ("bus_id", "pci_bus_id")

_WINDOW = 8192
_GPU_KEY = re.compile(rb'"(?:gpu|gpu_index|index)"\s*:\s*\d')
_VALUE_KEY = re.compile(
    rb'"(?:sm_util_percent|sm_percent|gpu_util_percent|power_w|sm_clock_mhz|(?:nvlink|pcie|rdma)_[tr]x_(?:kib|kb|bytes))"'
)
_TIME_KEY = re.compile(rb'"(?:time|timestamp)"\s*:')


@dataclass(frozen=True, slots=True)
class _Sample:
    host: str | None
    gpu: int
    time: float
    raw: Mapping[str, object]


def recognises(blob: Blob) -> bool:
    """JSON with a GPU's index, a time and one of the measured values in the first KiB."""
    head = blob.data[:_WINDOW]
    return all(key.search(head) is not None for key in (_GPU_KEY, _TIME_KEY, _VALUE_KEY)) and b'"processes"' not in head


def number(value: object) -> float:
    """A finite number that is not negative, else NaN: no value of a sample can be below zero."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return math.nan
    return float(value) if 0 <= value < _LARGEST else math.nan


def _first(raw: Mapping[str, object], keys: Sequence[str]) -> object:
    return next((raw[key] for key in keys if raw.get(key) is not None), None)


def _time(value: object) -> float:
    if isinstance(value, str):
        stamp = times.iso(value)
        return stamp.seconds if stamp is not None and stamp.kind is StampKind.UNIX else math.nan
    seconds = number(value)
    return seconds / 1000 if seconds > MILLISECONDS else seconds


def _counter(raw: Mapping[str, object], name: str) -> float:
    for unit, factor in _UNITS:
        value = number(raw.get(name + unit))
        if not math.isnan(value):
            return value * factor
    return math.nan


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _pids(value: object) -> tuple[int, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(pid for pid in value if isinstance(pid, int) and not isinstance(pid, bool) and pid > 0)


def _documents(data: bytes) -> Iterator[tuple[int, object]]:
    """(line number, value of the line); a list of samples in one document counts from 1; None for a damaged line."""
    if data.lstrip()[:1] == b"[":
        whole = json_text.parse(data, depth=1)
        items = whole.value if isinstance(whole.value, list) else []
        yield from enumerate([*items, None] if whole.damage else items, 1)
        return
    for number, line in text.lines(data):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line, parse_constant=lambda _: None)
        except (ValueError, RecursionError):
            yield number, None


def _sample(raw: object, host: str | None) -> _Sample | None:
    if not isinstance(raw, dict):
        return None
    gpu, time = number(_first(raw, _GPU)), _time(_first(raw, _TIME))
    if not gpu.is_integer() or gpu >= MAX_GPU or math.isnan(time):
        return None
    return _Sample(_text(raw.get("host")) or host, int(gpu), time, raw)


def _track(source: str, samples: Sequence[_Sample]) -> GpuTrack:
    ordered = sorted(samples, key=lambda sample: sample.time)
    rows = [sample.raw for sample in ordered]

    def column(values: Iterator[float]) -> Floats:
        return np.fromiter(values, dtype=np.float64, count=len(rows))

    columns = {name: column(number(_first(row, keys)) for row in rows) for name, keys in _GAUGES.items()}
    columns |= {f"{name}_kib": column(_counter(row, name) for row in rows) for name in _COUNTERS}
    return GpuTrack(
        source=source,
        host=ordered[0].host,
        gpu=ordered[0].gpu,
        uuid=next(filter(None, (_text(_first(row, _UUID)) for row in rows)), None),
        bus_id=next(filter(None, (_text(_first(row, _BUS)) for row in rows)), None),
        time=column(sample.time for sample in ordered),
        pids=tuple(_pids(row.get("pids")) for row in rows),
        **columns,
    )


def read(blob: Blob) -> Reading:
    """One track per host and GPU, ordered by host and index."""
    host = names.host_of(blob.path)
    groups: dict[tuple[str, int], list[_Sample]] = {}
    bad: list[int] = []
    for number, raw in _documents(blob.data):
        sample = _sample(raw, host)
        if sample is None:
            bad.append(number)
        else:
            groups.setdefault((sample.host or "", sample.gpu), []).append(sample)
    known = sum(map(len, groups.values()))
    problems: tuple[Problem, ...] = ()
    if bad:
        message = f"{len(bad)} line(s) are no sample of a GPU with a time (first: line {bad[0]}); {known} were used"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(_track(blob.path, groups[key]) for key in sorted(groups)), problems, known)


READER = Reader("gpu samples", Plane.HARDWARE, ReaderKind.DOCUMENT, recognises, read)
