"""What the NVML child has said so far, put together: the series of samples, the facts, and who does not answer."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.collect.node.pids import PidMap, pid_map
from rankmuster.collect.target import Target
from rankmuster.evidence.pci import bus_id

SCHEMA = "rankmuster.gpus/1"

VALUES = frozenset({"sm_util_percent", "power_w", "sm_clock_mhz", "nvlink_tx_kib", "nvlink_rx_kib"})
"""A sample without any of these says nothing: the GPU, or this program's rights, give nothing away."""

MAX_SAMPLES = 20_000
"""Rows kept of all GPUs together: eight of them for twenty minutes at two a second. Later ones are left out."""


@dataclass
class GpuRecord:
    """Grows line by line. `count` None: NVML has not said how many GPUs there are."""

    host: str
    count: int | None = None
    taken_at: float | None = None
    unusable: Mapping[str, Any] | None = None
    complete: set[int] = field(default_factory=set)
    _driver: dict[str, str] = field(default_factory=dict)
    _gpus: dict[int, dict[str, Any]] = field(default_factory=dict)
    _rows: list[dict[str, Any]] = field(default_factory=list)
    _slow: dict[int, tuple[str, float]] = field(default_factory=dict)
    _answered: set[int] = field(default_factory=set)
    _errors: dict[int, str] = field(default_factory=dict)

    def take(self, line: Mapping[str, Any]) -> None:
        """One line of the child."""
        kind, gpu = line.get("kind"), line.get("gpu")
        if kind == "driver":
            self.count, self.taken_at = int(line["count"]), float(line["time"])
            self._driver = dict(line.get("facts") or {})
        elif kind == "unusable":
            self.unusable = dict(line)
        elif isinstance(gpu, int) and kind == "sample":
            self._slow.pop(gpu, None)
            self._answered.add(gpu)
            self._errors.pop(gpu, None)
            if "error" in line:
                self._errors[gpu] = str(line["error"])
            if len(self._rows) < MAX_SAMPLES and not VALUES.isdisjoint(line):
                self._rows.append({key: value for key, value in line.items() if key != "kind"})
        elif isinstance(gpu, int) and kind == "slow":
            self._slow[gpu] = (str(line.get("call")), float(line.get("seconds", 0.0)))
        elif isinstance(gpu, int) and kind == "gpu":
            self._fact(gpu, line)

    def _fact(self, gpu: int, line: Mapping[str, Any]) -> None:
        entry = self._gpus.setdefault(gpu, {"index": gpu, "facts": {}, "links": []})
        for key in ("uuid", "name", "error"):
            if line.get(key):
                entry[key] = line[key]
        if line.get("bus_id"):
            entry["bus_id"] = bus_id(str(line["bus_id"])) or str(line["bus_id"])
        entry["facts"].update(line.get("facts") or {})
        if line.get("link"):
            entry["links"].append(line["link"])
        if line.get("complete"):
            self.complete.add(gpu)

    @property
    def samples(self) -> int:
        """Rows so far."""
        return len(self._rows)

    def hanging(self) -> dict[int, str]:
        """GPU -> what it has not answered, for those that hang now."""
        told = {gpu: f"{call} for {seconds:.0f} s" for gpu, (call, seconds) in self._slow.items()}
        answered = self._answered | {gpu for gpu, entry in self._gpus.items() if "error" in entry}
        silent = {gpu: "anything" for gpu in range(self.count or 0) if gpu not in answered}
        return {**silent, **told}

    def errors(self) -> dict[int, str]:
        """GPU -> what NVML says instead of answers, at the last look."""
        at_start = {gpu: str(entry["error"]) for gpu, entry in self._gpus.items() if "error" in entry}
        return {**at_start, **self._errors}

    def translation(self, target: Target | None) -> PidMap:
        """How the pids of all samples are written."""
        return pid_map(target, [row["pids"] for row in self._rows if row.get("pids")])

    def lists_processes(self) -> bool:
        """Whether NVML has shown a process on any GPU."""
        return any(row.get("pids") for row in self._rows)

    def counters(self, target: Target | None) -> bytes:
        """`gpu-counters.jsonl`; `pids` in the numbers of the instance, null where they cannot be told.

        An instance whose workers NVML does not list at all has not left its GPUs: then nothing is said of processes.
        """
        pids, hosts = self.translation(target), _hosts(target)
        hidden = target is not None and bool(target.workers) and not self.lists_processes()
        lines = []
        for row in self._rows:
            known = self._gpus.get(row["gpu"], {})
            head = {"time": row["time"], "host": hosts.get(row["gpu"], self.host), "gpu": row["gpu"]}
            head |= {key: known[key] for key in ("uuid", "bus_id") if key in known}
            rest = {key: value for key, value in row.items() if key not in head}
            rest["pids"] = None if hidden or row.get("pids") is None else pids.of(row["pids"])
            lines.append(json.dumps({**head, **rest}))
        return ("\n".join(lines) + "\n").encode() if lines else b""

    def topology(self) -> bytes:
        """`topology/gpus.json`: one entry per GPU that NVML knows, with its facts, links and errors."""
        errors = self.errors()
        gpus = []
        for gpu in sorted(self._gpus):
            entry = {key: value for key, value in self._gpus[gpu].items() if value not in ({}, [])}
            if gpu in errors:
                entry["error"] = errors[gpu]
            gpus.append(entry)
        document = {
            "schema": SCHEMA,
            "time": self.taken_at,
            "host": self.host,
            "gpu_count": self.count,
            "driver": self._driver,
            "gpus": gpus,
        }
        return json.dumps(document, indent=1).encode() + b"\n"


def _hosts(target: Target | None) -> dict[int, str]:
    """GPU -> host as the pod that has it names it; only where all of its processes agree."""
    found: dict[int, set[str]] = {}
    for process in target.processes if target is not None else ():
        if process.host is not None:
            for gpu in process.gpus:
                found.setdefault(gpu, set()).add(process.host)
    return {gpu: next(iter(hosts)) for gpu, hosts in found.items() if len(hosts) == 1}
