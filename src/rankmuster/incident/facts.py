"""What is known besides the verdict: who was suspected lately, what drifts, and which host a rank runs on.

A file or a journal that cannot be read takes nothing from recovery: it becomes a note, and the facts lack it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from rankmuster.incident.config import IncidentConfig, InstanceConfig
from rankmuster.incident.decide import Facts
from rankmuster.incident.journal import Journal, JournalError
from rankmuster.incident.past_suspects import suspected_before
from rankmuster.model.drift import DriftKind, DriftScope
from rankmuster.model.verdict import Verdict
from rankmuster.report.inert import plain

DRIFT_BYTES = 32 << 20
"""Of the drift file: a fleet of ten thousand nodes takes 5 MiB."""

DRIFT_SECONDS = 2 * 86_400.0
"""An older drift file is of another fleet: `rankmuster drift --all` is run daily."""

LOSSES = (DriftKind.BANDWIDTH.value, DriftKind.LATENCY.value, DriftKind.DISPERSION.value)
"""Kinds of drift that are a loss. A version that changed everywhere and slowed nothing holds nobody up."""


class FactsOf(Protocol):
    """What a runner asks for facts. Raises nothing."""

    def __call__(self, incident: str | None, verdict: Verdict | None) -> tuple[Facts, tuple[str, ...]]:
        """(the facts that do not change while an incident runs, what could not be known)."""
        ...


def facts_of(config: IncidentConfig, instance: str, journal: Journal | None, unix_now: Callable[[], float]) -> FactsOf:
    """`journal` None: nothing is known of earlier incidents."""
    nodes = config.instances.get(instance, InstanceConfig()).nodes

    def known(incident: str | None, verdict: Verdict | None) -> tuple[Facts, tuple[str, ...]]:
        notes: list[str] = []
        before: Mapping[str, str] = {}
        if journal is not None:
            try:
                before = suspected_before(journal, incident or "", unix_now(), config.again_seconds)
            except (JournalError, OSError) as error:
                notes.append(f"who was suspected before is not known: {plain(error, 300)}")
        systematic = None
        if config.drift is not None:
            systematic, note = systematic_drift(config.drift, unix_now())
            notes += [note] if note else []
        facts = Facts(nodes=nodes, rank_hosts=rank_hosts(verdict), suspected_before=before, systematic=systematic)
        return facts, tuple(notes)

    return known


def rank_hosts(verdict: Verdict | None) -> dict[int, str]:
    """Rank -> host, as far as the verdict says it; a suspect is often named twice, once with its host."""
    if verdict is None:
        return {}
    return {one.rank: one.host for one in verdict.suspects if one.rank is not None and one.host}


def systematic_drift(path: Path, now: float) -> tuple[str | None, str | None]:
    """(why a whole class of nodes is thought to drift, None where it does not; what could not be read)."""
    try:
        with open(path, "rb") as file:
            age = now - os.fstat(file.fileno()).st_mtime
            raw = file.read(DRIFT_BYTES + 1)
    except OSError as error:
        return None, f"drift is not known: {path} cannot be read ({error.strerror or error})"
    if len(raw) > DRIFT_BYTES:
        return None, f"drift is not known: {path} is larger than {DRIFT_BYTES} bytes"
    if age > DRIFT_SECONDS:
        return None, f"drift is not known: {path} is {age / 86_400:.0f} days old; run `rankmuster drift` again"
    try:
        found = _systematic(json.loads(raw))
    except (ValueError, RecursionError, TypeError, AttributeError, KeyError) as error:
        return None, f"drift is not known: {path} is no drift report ({type(error).__name__})"
    return found, None


def _systematic(report: Any) -> str | None:
    if report["schema"] != "rankmuster.drift/1":
        raise ValueError(report["schema"])
    statements = [
        str(one["statement"])
        for one in report["findings"]
        if one["scope"] == DriftScope.SYSTEMATIC.value and (one["kind"] in LOSSES or report["stop_rollout"] is True)
    ]
    if statements:
        return plain("; ".join(statements), 400)
    return plain(report.get("summary") or "stop the rollout", 400) if report["stop_rollout"] is True else None
