"""A run as the history keeps it: medians over iterations, the spread between ranks, and a hash that makes it one."""

from __future__ import annotations

from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, Profile
from rankmuster.model.fingerprint import Fingerprint


class NoHistory(Exception):
    """The run cannot be kept: its fingerprint's class, kin or node is unknown, or nobody knows when it ran."""


def history_run(
    run: BenchmarkRun, fingerprint: Fingerprint, profile: Profile, *, started_at: float | None = None
) -> HistoryRun:
    """The run as the history keeps it. `started_at`: unix seconds, where the run itself does not say.

    Raises NoHistory, with the unknown part and its reason.
    """
    raise NotImplementedError
