"""Records of releases as objects of a cluster. What talks to its API server is given from outside."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rankmuster.adapters.kube.release_object import document_in, name_of, object_of, release_in
from rankmuster.gate.chain import Chain, fold
from rankmuster.gate.document import NotARecord, Tampered, read, render
from rankmuster.gate.records import RecordsUnusable, checked_name
from rankmuster.model.release import ReleaseRecord

MOST_DOCUMENT = 1 << 20
"""Characters of a record: as the definition allows, so that etcd takes it."""

Listing = Callable[[], Sequence[Mapping[str, Any]]]
Creating = Callable[[Mapping[str, Any]], None]


class ClusterRecords:
    """`listing`: all ApprovedReleases of the namespace; `creating`: makes one, and raises Exists where its name is
    taken; both raise RecordsUnusable. `namespace`: for messages."""

    def __init__(self, namespace: str, listing: Listing, creating: Creating) -> None:
        self._namespace, self._listing, self._creating = namespace, listing, creating

    def chain(self, release: str) -> Chain:
        """See Records."""
        checked_name(release)
        found = []
        for raw in self._listing():
            if release_in(raw) != release:
                continue
            name, document = document_in(raw)
            try:
                record = read(document)
            except Tampered as error:
                raise Tampered(f"ApprovedRelease {self._namespace}/{name}: {error}") from None
            except NotARecord as error:
                raise NotARecord(f"ApprovedRelease {self._namespace}/{name}: {error}") from None
            if name_of(record.release, record.number) != name:
                where = f"ApprovedRelease {self._namespace}/{name}"
                raise Tampered(f"{where} holds record {record.number}: it was renamed")
            found.append(record)
        try:
            return fold(release, found)
        except Tampered as error:
            raise Tampered(f"namespace {self._namespace}: {error}") from None

    def add(self, record: ReleaseRecord) -> str:
        """See Records."""
        document = render(record)
        if len(document) > MOST_DOCUMENT:
            raise RecordsUnusable(
                f"the record has {len(document)} characters, and a cluster's object holds {MOST_DOCUMENT}: keep it in "
                "a folder (--records FOLDER)"
            )
        name = name_of(checked_name(record.release), record.number)
        try:
            self._creating(object_of(record, document))
        except Exists:
            raise RecordsUnusable(
                f"ApprovedRelease {self._namespace}/{name} is there already: somebody else was first; look at what was "
                "approved, and approve again"
            ) from None
        return f"ApprovedRelease {self._namespace}/{name}"

    def releases(self) -> tuple[str, ...]:
        """See Records."""
        return tuple(sorted({name for raw in self._listing() if (name := release_in(raw)) is not None}))


class Exists(Exception):
    """An object of that name is there."""
