"""The chain of a release's records, folded: what is approved now, and what was good before it. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rankmuster.gate.document import Tampered, seal
from rankmuster.model.release import Artefact, RecordKind, ReleaseRecord
from rankmuster.report.release_words import short

LEAST_DIGITS = 8
"""Of a hash by which a record is named: fewer could be a number."""


class NoSuchRecord(Exception):
    """No approval fits what was asked for; the message says which there are."""


@dataclass(frozen=True, slots=True)
class Chain:
    """`records`: all of one release, in order. `current`: the approval that counts, None before the first.

    `last_good`: the newest approval before it of another artefact that was never rolled back from. `bad`: hashes of
    approvals that were. `servings`: hash of an approval -> how it was measured to serve, the newest word.
    """

    release: str
    records: tuple[ReleaseRecord, ...] = ()
    current: ReleaseRecord | None = None
    last_good: ReleaseRecord | None = None
    bad: frozenset[str] = frozenset()
    good: tuple[ReleaseRecord, ...] = ()
    servings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def served_before(self) -> ReleaseRecord | None:
        """The newest good approval of another artefact than the current one that was measured: what a canary is held
        against."""
        return next((one for one in reversed(self._others) if one.hash in self.servings), None)

    @property
    def _others(self) -> tuple[ReleaseRecord, ...]:
        now = self.current.artefact if self.current is not None else None
        return tuple(one for one in self.good if one.artefact != now)

    def is_bad(self, artefact: Artefact) -> ReleaseRecord | None:
        """The approval of that very artefact that was rolled back from; None where there is none."""
        return next((one for one in self.approvals if one.hash in self.bad and one.artefact == artefact), None)

    @property
    def approvals(self) -> tuple[ReleaseRecord, ...]:
        """In order."""
        return tuple(one for one in self.records if one.kind is RecordKind.APPROVAL)

    def approval(self, digits: str) -> ReleaseRecord:
        """By its number, or by at least eight of the first digits of its hash. Raises NoSuchRecord."""
        wanted = digits.removeprefix("sha256:").lower()
        found = [one for one in self.approvals if wanted.isdigit() and str(one.number) == wanted]
        if not found and len(wanted) >= LEAST_DIGITS:
            found = [one for one in self.approvals if one.hash.startswith(f"sha256:{wanted}")]
        if len(found) == 1:
            return found[0]
        there = ", ".join(f"{one.number} ({short(one.hash)})" for one in (found or self.approvals)) or "none"
        what = f"{len(found)} approvals" if found else "no approval"
        raise NoSuchRecord(
            f"{what} of {self.release} is {digits!r}, by number or by {LEAST_DIGITS} digits of a hash; there is {there}"
        )


def fold(release: str, records: Sequence[ReleaseRecord]) -> Chain:
    """`records`: in any order, each already held against its own hash (`document.read`).

    Raises Tampered: one is missing, of another release, there twice, or does not follow the one before it.
    """
    ordered = sorted(records, key=lambda one: one.number)
    good: list[ReleaseRecord] = []
    by_hash: dict[str, ReleaseRecord] = {}
    bad: set[str] = set()
    servings: dict[str, Mapping[str, Any]] = {}
    previous: str | None = None
    for number, record in enumerate(ordered, start=1):
        _follows(release, record, number, previous)
        previous = record.hash
        if record.kind is RecordKind.APPROVAL:
            good.append(record)
            by_hash[record.hash] = record
            continue
        if record.to not in by_hash or record.to in bad:
            raise Tampered(f"record {number} of {release} is about {short(str(record.to))}, which is no approval")
        if record.kind is RecordKind.SERVED:
            servings[record.to] = record.serving or {}
            continue
        while good[-1].hash != record.to:
            bad.add(good.pop().hash)
    current = good[-1] if good else None
    others = [one for one in good if current is not None and one.artefact != current.artefact]
    return Chain(
        release,
        tuple(ordered),
        current,
        others[-1] if others else None,
        frozenset(bad),
        tuple(good),
        servings,
    )


def _follows(release: str, record: ReleaseRecord, number: int, previous: str | None) -> None:
    if record.release != release:
        raise Tampered(f"a record of {record.release!r} stands among those of {release!r}")
    if record.number != number:
        missing = f"record {number} is missing" if record.number > number else f"record {record.number} is there twice"
        raise Tampered(f"of the records of {release}, {missing}; restore them all before anything is decided on them")
    if record.previous != previous:
        raise Tampered(
            f"record {number} of {release} follows {short(str(record.previous))}, and before it stands "
            f"{short(str(previous))}: a record was exchanged"
        )
    if (record.artefact is None or record.checklist is None) and record.kind is RecordKind.APPROVAL:
        raise Tampered(f"record {number} of {release} approves nothing: it has no artefact or no checklist")


def next_record(chain: Chain, record: ReleaseRecord) -> ReleaseRecord:
    """`record` as the next link: numbered, bound to the one before it, and sealed. Raises document.TooLong."""
    last = chain.records[-1] if chain.records else None
    return seal(
        replace(
            record,
            release=chain.release,
            number=len(chain.records) + 1,
            previous=last.hash if last is not None else None,
        )
    )
