"""A fingerprint from what was read of a node."""

from __future__ import annotations

from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.node_path import NodePath


def fingerprint_of(path: NodePath, *, profile_key: str | None = None) -> Fingerprint:
    """The fingerprint of a node. `profile_key`: `Profile.key` of the benchmark that belongs to it, None for none."""
    raise NotImplementedError
