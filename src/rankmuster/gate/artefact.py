"""The communication artefact of what is deployed, its hash, and how two of them differ. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankmuster.gate.deployed import Deployed, Workload
from rankmuster.gate.document import BOUNDS
from rankmuster.model.digest import ascii_digest
from rankmuster.model.fingerprint import NONE, Fingerprint
from rankmuster.model.plain_json import to_plain
from rankmuster.model.release import Artefact, Part, Setting
from rankmuster.model.unknown import Unknown

VERSIONS = {
    "torch": "pytorch_version",
    "nccl": "nccl_version",
    "cuda": "cuda_version",
    "driver": "driver",
    "engine": "engine",
    "engine_version": "engine_version",
}
"""Name in an artefact -> field of a fingerprint."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`what`: "image", "NCCL_ALGO", "topology". None: it is not there. `where`: which container; empty for all."""

    what: str
    where: str
    before: str | None
    after: str | None

    @property
    def in_words(self) -> str:
        """For a person: "NCCL_ALGO: not set -> Ring (container vllm)"."""
        shown = [repr(one) if one is not None else "not set" for one in (self.before, self.after)]
        return f"{self.what}: {shown[0]} -> {shown[1]}" + (f" ({self.where})" if self.where else "")


def artefact_of(
    name: str, workload: Workload, fingerprints: Sequence[Fingerprint], profile: str | None, digest: str | None
) -> Artefact:
    """`digest`: of the one image that the workload does not pin, if there is one. `fingerprints`: of nodes in use."""
    digest = digest if len(unpinned(workload)) <= 1 else None
    return Artefact(
        name,
        versions_of(fingerprints),
        _known(one.topology_hash for one in fingerprints),
        _known(one.class_hash for one in fingerprints),
        profile,
        tuple(_part(one, digest) for one in workload.deployed),
    )


def versions_of(fingerprints: Sequence[Fingerprint]) -> dict[str, str]:
    """What is known of them, by name; where nodes differ, all of them ("575.1, 580.2")."""
    found: dict[str, str] = {}
    for name, attribute in VERSIONS.items():
        values = sorted({str(one) for one in _values(fingerprints, attribute) if one != NONE})
        if values:
            found[name] = ", ".join(values)
    return found


def _values(fingerprints: Sequence[Fingerprint], attribute: str) -> list[object]:
    values = [getattr(one, attribute) for one in fingerprints]
    return [one for one in values if not isinstance(one, Unknown)]


def _known(hashes: Iterable[str | Unknown]) -> tuple[str, ...]:
    return tuple(sorted({one for one in hashes if isinstance(one, str)}))


def unpinned(workload: Workload) -> tuple[str, ...]:
    """Images that are named by a tag, once each."""
    return tuple(dict.fromkeys(one.image for one in workload.deployed if one.image is not None and one.digest is None))


def _part(one: Deployed, digest: str | None) -> Part:
    known = one.digest or (digest if one.image is not None or one.owner is None else None)
    return Part(one.where, one.identity, one.image, known, one.settings, one.shape, one.dark)


def artefact_hash(artefact: Artefact) -> str:
    """`sha256:...` over its canonical JSON: two of one hash talk alike."""
    return ascii_digest(to_plain(artefact, BOUNDS))


def settings_hash(settings: Sequence[Setting]) -> str:
    """`sha256:...` over the bytes of the settings, in their order: NAME, NUL, value or reference, NUL, NUL."""
    data = b"".join(
        b"\0".join((one.name.encode(), (one.value if one.value is not None else one.reference or "").encode()))
        + b"\0\0"
        for one in settings
    )
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def differences(before: Artefact, after: Artefact) -> tuple[Difference, ...]:
    """What of the communication differs, the image first. What one of them cannot see is a difference too."""
    found: list[Difference] = []
    pairs, lone = _paired(before.parts, after.parts)
    for old, new in pairs:
        where = new.where if len(after.parts) > 1 else ""
        if (old.digest or old.image) != (new.digest or new.image):
            found.append(Difference("image", where, old.digest or old.image, new.digest or new.image))
        found += _settings(old.settings, new.settings, where)
        found += [
            Difference(name, where, old.shape.get(name), new.shape.get(name))
            for name in sorted({*old.shape, *new.shape})
            if old.shape.get(name) != new.shape.get(name)
        ]
        found += [Difference("not seen", where, None, one) for one in new.dark if one not in old.dark]
    for part, there in lone:
        found.append(Difference("container", part.where, "there" if there else None, None if there else "there"))
    for name in sorted({*before.versions, *after.versions}):
        one, other = before.versions.get(name), after.versions.get(name)
        if one != other:
            found.append(Difference(name, "", one, other))
    hashes = (
        ("topology", before.topology_hashes, after.topology_hashes),
        ("class of nodes", before.class_hashes, after.class_hashes),
        ("profile", (before.profile,), (after.profile,)),
    )
    for what, old_ones, new_ones in hashes:
        if old_ones != new_ones:
            found.append(Difference(what, "", _joined(old_ones), _joined(new_ones)))
    return tuple(found)


def _joined(hashes: Sequence[str | None]) -> str | None:
    return ", ".join(one for one in hashes if one) or None


def _paired(before: Sequence[Part], after: Sequence[Part]) -> tuple[list[tuple[Part, Part]], list[tuple[Part, bool]]]:
    """(those that are one container, those that only one side has with whether it is the earlier one)."""
    by_place = {one.place: one for one in after}
    pairs = [(one, by_place[one.place]) for one in before if one.place in by_place]
    taken = {id(part) for pair in pairs for part in pair}
    gone = [(one, True) for one in before if id(one) not in taken]
    return pairs, [*gone, *((one, False) for one in after if id(one) not in taken)]


def _settings(before: Sequence[Setting], after: Sequence[Setting], where: str) -> list[Difference]:
    old, new = ({one.name: one.reference or one.value for one in some} for some in (before, after))
    return [
        Difference(name, where, old.get(name), new.get(name))
        for name in dict.fromkeys([*old, *new])
        if old.get(name) != new.get(name)
    ]
