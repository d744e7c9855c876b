"""What differs between two fingerprints, in words, most consequential first."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.fingerprint import Change, Fingerprint


def changes(before: Fingerprint, after: Fingerprint) -> tuple[Change, ...]:
    """What differs and what that does to NCCL's choices, most consequential first; what is unknown is a change."""
    raise NotImplementedError


def applies(found: Sequence[Change]) -> bool:
    """Whether results from before can still be compared with: whether every change leaves them standing."""
    return all(change.applies for change in found)


def regenerate(found: Sequence[Change]) -> tuple[str, ...]:
    """What has to be measured anew, each once, in the order of the changes."""
    return tuple(dict.fromkeys(what for change in found for what in change.regenerate))
