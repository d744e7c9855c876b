"""An admission as one HTML file: the answer, why, and the node's points over its class's distribution."""

from __future__ import annotations

from rankmuster.model.admission import AdmissionRecord
from rankmuster.model.history import ClassHistory


def render(record: AdmissionRecord, history: ClassHistory | None = None) -> str:
    """Being built."""
    raise NotImplementedError
