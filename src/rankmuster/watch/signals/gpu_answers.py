"""What one child has said of the node's GPUs so far: their samples, and which do not answer, since when and why.

Whether the child may go on is judged elsewhere (`nvml`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.model.plane import Plane
from rankmuster.watch.signals.gpu_rows import Rows
from rankmuster.watch.signals.gpu_xid import Xids
from rankmuster.watch.signals.signal import Heard

MOST_XIDS = 32
"""Told at one poll: a failing GPU repeats itself."""

MOST_NAMED = 8
"""GPUs named in one reason."""


class Answers:
    """Of one child, from its start at `began` (monotonic seconds). `xids`: outlives the children.

    `heard`: when it last said anything. `count`: GPUs of the node, None while NVML has not started. `unusable`: why
    NVML cannot be used at all, and whether for lack of a driver. `xid_gpus`: those whose Xids NVML tells, None where it
    has not said.
    """

    def __init__(self, host: str, xids: Xids, began: float = 0.0) -> None:
        self._rows = Rows(host)
        self._xids = xids
        self._failing: dict[int, tuple[float, str]] = {}
        self._gave: set[int] = set()  # GPUs that have given a sample
        self._bare: set[int] = set()  # ... and those that answer without telling anything
        self.heard = began
        self.count: int | None = None
        self.unusable: tuple[str, bool] | None = None
        self.xid_gpus: tuple[int, ...] | None = None

    @property
    def listed(self) -> tuple[tuple[int, ...], ...]:
        """The processes of each GPU, as NVML numbers them."""
        return self._rows.listed

    @property
    def gave(self) -> bool:
        """Whether any GPU has given a sample."""
        return bool(self._gave)

    @property
    def failing_since(self) -> float | None:
        """When the first of the GPUs that fail now began to, None where none does."""
        return min((since for since, _ in self._failing.values()), default=None)

    @property
    def bare(self) -> str:
        """GPUs that answer without telling anything, for people; empty for none."""
        return ", ".join(map(str, sorted(self._bare)[:MOST_NAMED]))

    def failing(self, others: int = 0) -> str:
        """Which GPUs fail and why, for people. `others`: how many answers there are beside."""
        told = "; ".join(f"GPU {gpu}: {why}" for gpu, (_, why) in sorted(self._failing.items())[:MOST_NAMED])
        rest = f", {others} other GPU(s) answer" if others else ""
        return f"{told}{rest}"

    def take(self, lines: list[Mapping[str, Any]], now: float, unix: float) -> list[Heard]:
        """Samples and Xids of a round. `now`: monotonic seconds; `unix`: the wall clock read with it."""
        told = 0
        heard: list[Heard] = []
        for line in lines:
            kind, gpu = line.get("kind"), line.get("gpu")
            self.heard = now
            if kind == "driver":
                self.count = _count(line)
            elif kind == "gpu":
                self._rows.opened(line)
                if "error" in line and isinstance(gpu, int):
                    self._fails(gpu, now, f"NVML says of it: {line['error']}")
            elif kind == "moving":
                heard += self._sample(line, now, unix)
            elif kind == "slow" and isinstance(gpu, int):
                self._fails(gpu, now, f"it has not answered {line.get('call')} for {_seconds(line):.0f} s")
            elif kind == "xid" and told < MOST_XIDS:
                told += 1
                heard += self._xid(line, now, unix)
            elif kind == "xids" and isinstance(line.get("gpus"), list):
                self.xid_gpus = tuple(index for index in line["gpus"] if isinstance(index, int))
            elif kind == "unusable":
                self.unusable = str(line.get("reason")), bool(line.get("absent"))
        return heard

    def _sample(self, line: Mapping[str, Any], now: float, unix: float) -> list[Heard]:
        gpu, track = line.get("gpu"), self._rows.sample(line)
        if isinstance(gpu, int):
            if "error" in line:
                self._fails(gpu, now, f"NVML says of it: {line['error']}")
            elif track is None and gpu not in self._gave:
                self._bare.add(gpu)
            elif track is None:
                self._fails(gpu, now, "NVML does not tell its utilisation and NVLink bytes any more")
            else:
                self._gave.add(gpu)
                self._failing.pop(gpu, None)
        return [Heard(now, unix, track, Plane.HARDWARE)] if track is not None else []

    def _xid(self, line: Mapping[str, Any], now: float, unix: float) -> list[Heard]:
        at, code = line.get("time"), line.get("code")
        when = float(at) if isinstance(at, (int, float)) else unix
        xid = self._xids.told(code, str(line.get("bus_id")), when, "told by NVML") if type(code) is int else None
        return [Heard(now, unix, xid, Plane.KERNEL)] if xid is not None else []

    def _fails(self, gpu: int, now: float, why: str) -> None:
        since = self._failing[gpu][0] if gpu in self._failing else now
        self._failing[gpu] = since, why


def _count(line: Mapping[str, Any]) -> int:
    count = line.get("count")
    return count if isinstance(count, int) else 0


def _seconds(line: Mapping[str, Any]) -> float:
    value = line.get("seconds")
    return float(value) if isinstance(value, (int, float)) else 0.0
