"""`ras/probe.json` of a bundle (schema `rankmuster.ras-query/1`): how RAS was asked, and what met the asker.

It speaks of the asking. Replies of another job that stand in it as text are counted and not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from rankmuster.evidence import json_text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.json_fields import unix_seconds
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras_asking import RasAttempt, RasQuery

SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.ras-query/')
MAX_ATTEMPTS = 1000
"""A collector gives up after some dozens."""
MAX_TEXT = 400
"""Characters kept of a reason."""

_MET = frozenset({"ras", "refused", "unreachable", "silent", "closed", "foreign"})


def recognises(blob: Blob) -> bool:
    """A JSON object of this schema."""
    return json_text.begins(blob.data, SCHEMA)


def read(blob: Blob) -> Reading:
    """One query; a damaged file gives what stands before the damage."""
    parsed = json_text.parse(blob.data)
    if not isinstance(parsed.value, dict):
        message = f"begins like a record of asking RAS but cannot be read ({parsed.damage or 'not an object'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    document = parsed.value
    decisions = _objects(document, "decisions")
    last = decisions[-1] if decisions else {}
    probe = document.get("probe")
    nccl = document.get("nccl")
    answered = _text(probe.get("releases")) if isinstance(probe, dict) else None
    mapped = nccl.get("releases") if isinstance(nccl, dict) else None
    releases = [answered] if answered else [_text(each) for each in mapped] if isinstance(mapped, list) else []
    hazards = last.get("hazards")
    query = RasQuery(
        source=blob.path,
        address=_text(document.get("asked_at")),
        decision=_text(last.get("action")),
        reason=_text(last.get("reason")),
        outcome=_text(document.get("outcome")),
        hazards=tuple(text for each in hazards if (text := _text(each))) if isinstance(hazards, list) else (),
        releases=tuple(release for release in releases if release),
        attempts=tuple(_attempts(document)),
        foreign_replies=len(_objects(document, "replies_of_another_job")),
    )
    problems: tuple[Problem, ...] = ()
    if parsed.damage:
        problems = (Problem(ProblemKind.DAMAGED, blob.path, f"damaged ({parsed.damage}); what stands before was used"),)
    return Reading((query,), problems, 1)


def _attempts(document: Mapping[str, object]) -> list[RasAttempt]:
    found = []
    for entry in _objects(document, "attempts")[:MAX_ATTEMPTS]:
        address, met = _text(entry.get("address")), entry.get("met")
        if address is not None and isinstance(met, str) and met in _MET:
            found.append(RasAttempt(address, met, unix_seconds(entry.get("at"))))
    return found


def _objects(entry: Mapping[str, object], key: str) -> list[Mapping[str, object]]:
    value = entry.get(key)
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _text(value: object) -> str | None:
    return value[:MAX_TEXT] if isinstance(value, str) and value.strip() else None


READER = Reader("record of asking RAS", Plane.RAS, ReaderKind.DOCUMENT, recognises, read)
