"""An admission as JUnit XML, for CI systems: a test suite per group of checks."""

from __future__ import annotations

from rankmuster.model.admission import AdmissionRecord


def render(record: AdmissionRecord) -> str:
    """Being built."""
    raise NotImplementedError
