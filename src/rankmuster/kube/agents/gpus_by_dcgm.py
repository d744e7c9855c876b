"""The node's GPUs from the page of a DCGM exporter that runs there already."""

from __future__ import annotations

import threading

from rankmuster.collect.deadline import Clock
from rankmuster.collect.logs.http_get import Unanswered, pour
from rankmuster.collect.logs.metrics_page import problem, shown
from rankmuster.kube.agents.gpu_row import Row, Whose
from rankmuster.watch.signals.dcgm_page import Filter, Parser

PAGE_SECONDS = 3.0
FRESH_SECONDS = 1.0
"""For which a page is handed on again: several sidecars ask at once, and the exporter collects every some seconds."""


class GpusByDcgm:
    """`rows` may be called from any thread."""

    def __init__(self, url: str, clock: Clock) -> None:
        self._url = url
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[float, list[Row], str] | None = None

    def rows(self) -> tuple[list[Row], str]:
        """The GPUs on the page; why there is none."""
        with self._lock:
            if self._kept is None or self._clock() - self._kept[0] > FRESH_SECONDS:
                found, why = self._ask()
                self._kept = self._clock(), found, why
            return self._kept[1], self._kept[2]

    def close(self) -> None:
        """Has nothing that goes on."""

    def _ask(self) -> tuple[list[Row], str]:
        lines = Filter()
        try:
            answer = pour(self._url, PAGE_SECONDS, lines.take)
        except Unanswered as error:
            return [], f"the DCGM exporter's page {shown(self._url)} was not to be had: {error}"
        lines.end()
        wrong = problem(answer) if answer.status != 404 else "status 404"
        if wrong is not None or not lines.series:
            return [], f"{shown(self._url)} is no page of a DCGM exporter: {wrong or 'no series of DCGM on it'}"
        page = Parser().parse(lines.kept)
        rows = [
            Row(index, gpu.labels.uuid, gpu.labels.bus, dict(gpu.values), None, tuple(map(_whose, sorted(gpu.pods))))
            for index, gpu in page.gpus.items()
        ]
        return rows, "" if rows else "no GPU that is not partitioned is on the DCGM exporter's page"


def _whose(pod: str) -> Whose:
    namespace, slash, name = pod.partition("/")
    return Whose("", namespace, name) if slash else Whose("", "", namespace)
