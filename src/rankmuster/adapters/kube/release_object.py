"""A record of the release gate as an ApprovedRelease object, and back. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rankmuster.model.kube import API_VERSION, DOMAIN
from rankmuster.model.release import ReleaseRecord

RELEASE_LABEL = f"{DOMAIN}/release"
"""By which the records of one release are listed."""
MOST_REASON, MOST_BY, MOST_VERSION = 1024, 253, 253
MOST_IMAGES = 64


def name_of(release: str, number: int) -> str:
    """Of the object: of two records with one number only one can be created."""
    return f"{release}-{number:06d}"


def object_of(record: ReleaseRecord, document: str) -> dict[str, Any]:
    """`document`: the record's JSON, which is what counts; the rest is cut to what people read."""
    artefact = record.artefact
    images = [] if artefact is None else [part.digest or part.image for part in artefact.parts]
    spec: dict[str, Any] = {
        "release": record.release,
        "number": record.number,
        "kind": record.kind.value,
        "madeAt": datetime.fromtimestamp(record.made_at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "by": record.by[:MOST_BY],
        "reason": record.reason[:MOST_REASON],
        "hash": record.hash,
        "previous": record.previous,
        "to": record.to,
        "images": [one for one in images if one][:MOST_IMAGES],
        "versions": {} if artefact is None else {key: one[:MOST_VERSION] for key, one in artefact.versions.items()},
        "document": document,
    }
    return {
        "apiVersion": API_VERSION,
        "kind": "ApprovedRelease",
        "metadata": {"name": name_of(record.release, record.number), "labels": {RELEASE_LABEL: record.release}},
        "spec": {key: value for key, value in spec.items() if value is not None},
    }


def release_in(raw: Mapping[str, Any]) -> str | None:
    """Whose record an object says it is; None where it says nothing."""
    spec = raw.get("spec")
    found = spec.get("release") if isinstance(spec, Mapping) else None
    return found if isinstance(found, str) else None


def document_in(raw: Mapping[str, Any]) -> tuple[str, str]:
    """(the object's name, the record's JSON in it; empty where there is none)."""
    metadata, spec = raw.get("metadata"), raw.get("spec")
    name = str(metadata.get("name")) if isinstance(metadata, Mapping) else "?"
    document = spec.get("document") if isinstance(spec, Mapping) else None
    return name, document if isinstance(document, str) else ""
