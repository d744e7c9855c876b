"""An admission on a terminal: the answer first, then why, then what was checked."""

from __future__ import annotations

from rich.console import Console

from rankmuster.model.admission import AdmissionRecord


def render(record: AdmissionRecord, console: Console) -> None:
    """Being built."""
    raise NotImplementedError
