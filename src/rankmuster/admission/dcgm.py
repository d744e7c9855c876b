"""What `dcgmi diag -r N -j` says, read without trust: its JSON has had three shapes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DcgmResult:
    """One test on one GPU (None: on the node). `status`: pass, fail, warn, skip, not_run, or its own word."""

    test: str
    gpu: int | None
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class DcgmReport:
    """`problem`: why the report is not whole (damaged JSON, an error of DCGM's); then `results` may be empty.

    `hung`: ended by the time limit.
    """

    version: str | None
    level: int | None
    results: tuple[DcgmResult, ...]
    problem: str | None = None
    hung: bool = False
