"""The GPUs of this node in the form of a DCGM exporter's page, with the pod of each: for the watch of a sidecar.

For one pod (`?pod=UID`) only its GPUs, with the processes on them by the pod's own numbers, which NSpid gives: so a
rank is joined to its GPU although neither side sees the other's numbers.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Protocol

from rankmuster.collect.deadline import Clock
from rankmuster.collect.node.pids import BEYOND_PIDS
from rankmuster.kube.agents.gpu_row import Row, Shown, Whose, text
from rankmuster.kube.agents.gpus_by_dcgm import GpusByDcgm
from rankmuster.kube.agents.gpus_by_nvml import GpusByNvml
from rankmuster.kube.agents.pods_here import pods_here
from rankmuster.kube.agents.pods_of_pids import Inside, PodsOfPids
from rankmuster.kube.agents.server import Answer, trouble

CONTENT = "text/plain; version=0.0.4; charset=utf-8"

NAMES_SECONDS = 30.0
"""For which a pod's name is remembered by its UID: it never changes, but a pod may come to be seen later."""


class _Gpus(Protocol):
    def rows(self) -> tuple[list[Row], str]: ...

    def close(self) -> None: ...


class HardwarePage:
    """`dcgm_url`: of an exporter, None: NVML. `proc`: the host's. `node`: its name, for the label Hostname."""

    def __init__(self, dcgm_url: str | None, proc: Path, node: str, clock: Clock) -> None:
        self._gpus: _Gpus = GpusByDcgm(dcgm_url, clock) if dcgm_url else GpusByNvml(clock)
        self._proc = proc
        self._node = node
        self._clock = clock
        self._pods = PodsOfPids(proc)
        self._names: dict[str, tuple[float, Whose | None]] = {}
        self._lock = threading.Lock()

    def answer(self, pod: str | None) -> Answer:
        """The page; of one pod by its UID where it is named."""
        rows, why = self._gpus.rows()
        with self._lock:
            shown = self._of_pod(rows, pod) if pod else [one for row in rows for one in self._all(row)]
        if not shown:
            missing = f"pod {pod[:60]} has no GPU here that anybody knows of" if pod and rows else why
            return trouble(503, missing or "no GPU is here")
        return Answer(200, text(shown, self._node).encode("utf-8", "replace"), CONTENT)

    def close(self) -> None:
        """Ends what asks."""
        self._gpus.close()

    def _all(self, row: Row) -> list[Shown]:
        inside = self._inside(row)
        pods = list({one.whose.uid: one.whose for one in inside.values()}.values()) or list(row.pods) or [Whose()]
        return [Shown(row, whose) for whose in pods]

    def _of_pod(self, rows: list[Row], uid: str) -> list[Shown]:
        found: list[Shown] = []
        for row in rows:
            if row.pids is not None:
                inside = self._inside(row)
                own = {pid: one for pid, one in inside.items() if one.whose.uid == uid}
                if own:
                    whose = next(iter(own.values())).whose
                    pids = [own[pid].inner if pid in own else pid + BEYOND_PIDS for pid in row.pids]
                    found.append(Shown(row, whose, tuple(sorted(set(pids)))))
                continue
            named = self._name(uid) if row.pods else None
            if named is not None and any(
                (one.namespace, one.name) == (named.namespace, named.name) for one in row.pods
            ):
                found.append(Shown(row, named))
        return found

    def _inside(self, row: Row) -> dict[int, Inside]:
        return {pid: inside for pid in row.pids or () if (inside := self._pods.of(pid)) is not None}

    def _name(self, uid: str) -> Whose | None:
        kept = self._names.get(uid)
        if kept is None or self._clock() - kept[0] > NAMES_SECONDS:
            here = pods_here(self._proc, {uid}).get(uid)
            whose = Whose(uid, here.namespace, here.name) if here is not None and here.name else None
            if len(self._names) > 1024:
                self._names.clear()
            kept = self._names[uid] = self._clock(), whose
        return kept[1]
