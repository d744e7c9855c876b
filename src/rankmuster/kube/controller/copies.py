"""Copies of evidence beyond the controller's volume: one worker a place that policies name, begun when it is needed."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from rankmuster.adapters.kube.uploads import Outcome, Uploads, uploaded_below
from rankmuster.kube.controller.policy_config import evidence_folder
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.crd.policy import PolicySpec


class Copies:
    """`copied`: told of the incident whose evidence is elsewhere now. `say`: of attempts that failed."""

    def __init__(
        self, settings: ControllerSettings, copied: Callable[[str], object], say: Callable[[str], None]
    ) -> None:
        self._settings, self._copied, self._say = settings, copied, say
        self._lock = threading.Lock()
        self._workers: dict[str, Uploads] = {}
        self._said: set[str] = set()

    def of(self, spec: PolicySpec) -> Callable[[Path], object] | None:
        """What is told of every bundle of such a policy; None where nothing is copied. What an earlier process has left
        is taken up at once."""
        url = spec.evidence.upload
        if url is None:
            return None
        with self._lock:
            worker = self._workers.get(url)
            if worker is None:
                root = evidence_folder(self._settings, spec)
                worker = Uploads(root, url, self._told, seconds=spec.evidence.upload_seconds)
                worker.start()
                self._workers[url] = worker
        return worker.add

    def where(self, incident: str) -> str | None:
        """Where the copy of an incident's evidence is."""
        base = self._settings.folder / "incidents"
        for root in sorted(base.glob("to-*")):
            if (root / incident).is_dir():
                return uploaded_below(root / incident)
        return None

    def close(self, seconds: float) -> None:
        with self._lock:
            workers = list(self._workers.values())
        for worker in workers:
            worker.close(seconds / max(len(workers), 1))

    def _told(self, outcome: Outcome) -> None:
        incident = outcome.bundle.parent.parent.name
        if outcome.url is not None:
            self._copied(incident)
        elif outcome.note not in self._said and len(self._said) < 1_000:
            self._said.add(outcome.note)
            self._say(f"evidence of incident {incident} is not copied yet: {outcome.note}")
