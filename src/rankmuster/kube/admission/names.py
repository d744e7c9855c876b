"""Names that are made of what they are about, so that whoever comes after a crash makes the same ones. Pure."""

from __future__ import annotations

import hashlib
import re

from rankmuster.model.kube import DOMAIN

FACTS = f"{DOMAIN}/watched-facts"
"""Annotation of a NodeAdmission: JSON, name -> value of what `watched` is over, and what came to be known since."""

SERVED = f"{DOMAIN}/served"
"""Annotation of a NodeAdmission: `true` where the node served before it changed."""

TRUSTED = f"{DOMAIN}/trusted"
"""Annotation of a NodeAdmission: `true` where its node is let in on first sight."""

AFTER = f"{DOMAIN}/after"
"""Annotation of a NodeAdmission: UID of the one of the same node that it follows."""

MOST_NODE = 24
"""Characters of a node's name in a Job's, whose pods have 63 with their own ending."""


def admission_name(node: str, uid: str, watched: str, after: str) -> str:
    """Of the NodeAdmission of this node as it is now. `after`: UID of the one that it follows: a node may become what
    it was before."""
    return f"{node[:240].rstrip('.-')}-{_digest(uid, watched, after)}"


def job_name(node: str, admission_uid: str, again: int, attempt: int, *, pair: bool = False) -> str:
    """Of one Job: 24 + 10 + 15 characters at most."""
    short = re.sub(r"[^a-z0-9]+", "-", node.lower())[:MOST_NODE].strip("-") or "node"
    return f"admit-{short}-{_digest(node, admission_uid)}-{again}-{'p' if pair else ''}{attempt}"


def _digest(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:10]
