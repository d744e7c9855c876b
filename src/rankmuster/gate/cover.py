"""Whether an approval is of what is deployed now, on these nodes: what a pipeline or an admission asks. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.gate.artefact import artefact_of, differences
from rankmuster.gate.deployed import Workload
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.release import Artefact
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named, short

NOT_OF_A_WORKLOAD = frozenset({"topology", "class of nodes", "profile"})


def objections(
    approved: Artefact, workload: Workload | None, fingerprints: Sequence[Fingerprint], digest: str | None = None
) -> tuple[str, ...]:
    """Why the approval does not cover it, one sentence each; empty where it does.

    `digest`: of the one image that the workload does not pin. A node is covered by its class: the same hardware,
    software and settings as those that the release was proven on.
    """
    found: list[str] = []
    if workload is not None:
        found += [f"{part.where}: {dark}" for part in approved.parts for dark in part.dark]
        now = artefact_of(approved.name, workload, (), None, digest)
        # where the file does not pin the image, the tag alone says nothing: that is a difference too
        found += [
            one.in_words
            for one in differences(approved, now)
            if one.what not in NOT_OF_A_WORKLOAD and one.what not in approved.versions
        ]
    for one in fingerprints:
        name = one.host or "the node"
        if isinstance(one.class_hash, Unknown):
            found.append(f"the class of {name} is unknown ({one.class_hash.reason}): what is unknown equals nothing")
        elif one.class_hash not in approved.class_hashes:
            there = named([short(each) for each in approved.class_hashes]) or "none"
            found.append(f"{name} is of class {short(one.class_hash)}, and the release was proven on {there}")
    return tuple(found)
