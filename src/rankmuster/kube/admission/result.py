"""What a Job's record says once it is judged by the history of the fleet."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.admission import AdmissionRecord, Decision
from rankmuster.model.benchmark import HistoryRun
from rankmuster.model.fingerprint import Fingerprint


@dataclass(frozen=True, slots=True)
class Result:
    """`record`: sealed, as it is stored. `fingerprint`, `runs`: of a node alone, None and empty of a pair. `known`: it
    is in the history already."""

    record: AdmissionRecord
    fingerprint: Fingerprint | None = None
    runs: tuple[HistoryRun, ...] = ()
    known: bool = False

    @property
    def decision(self) -> Decision:
        return self.record.decision

    @property
    def class_hash(self) -> str | None:
        """None where it is not known."""
        found = self.record.fingerprint.get("class_hash", "")
        return found if found.startswith("sha256:") else None
