"""What rankmuster says of a bundle in memory or on disk, as an answer that can be scored."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.flight.score import Answer
from benchmarks.flight.world import World

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import Evidence, gather, load
from rankmuster.model.fault import Role
from rankmuster.model.verdict import Verdict

NOT_FAULTS = ("healthy", "inconclusive", "blind")


def of_world(world: World) -> Answer:
    """The answer on a synthetic job's bundle, which is never written."""
    blobs = [Blob(name, data) for name, data in world.files()]
    manifest = world.manifest()
    if manifest is not None:
        blobs.insert(0, Blob("manifest.json", json.dumps(manifest).encode()))
    return _guarded(lambda: gather(blobs))


def of_path(path: Path) -> Answer:
    """The answer on a captured case."""
    return _guarded(lambda: load(path))


def _guarded(evidence: object) -> Answer:
    try:
        gathered: Evidence = evidence()  # type: ignore[operator]
        return of_verdict(diagnose(gathered).verdict)
    except Exception as error:  # a crash is an answer of its own, of any tool
        return Answer(None, fault=False, said=f"{type(error).__name__}: {error}")


def of_verdict(verdict: Verdict) -> Answer:
    """A verdict as an answer: its culprits, and whether it calls the job faulty."""
    named = frozenset(s.rank for s in verdict.suspects if s.role is Role.CULPRIT and s.rank is not None)
    sub = f"/{verdict.subclass.value}" if verdict.subclass else ""
    sure = verdict.confidence.value if verdict.confidence is not None else "-"
    said = f"{verdict.class_.value}{sub}, {sure}, {verdict.progress.value}"
    suspects = frozenset(s.rank for s in verdict.suspects if s.role is Role.SUSPECT and s.rank is not None)
    return Answer(named, verdict.class_.value not in NOT_FAULTS, said, suspects)
