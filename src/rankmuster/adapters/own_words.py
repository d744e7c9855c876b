"""What we write where others write too, so that it is known again: who, which incident, why, and that it is unchanged.

A reason that somebody has edited is theirs from then on, and is never taken away by us: the last word is a sum over
what stands before it.
"""

from __future__ import annotations

import re
import zlib

OURS = "rankmuster"

MOST_REASON = 160
"""Characters of a reason: one line of `sinfo -R`, a sentence."""

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_INCIDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,127}")
# Quotes, commas, `#`, `=` and brackets mean something to schedulers and to readers of lists; `~` begins our last word.
_UNFIT = re.compile(r"[^A-Za-z0-9 .:;/_+()%<>!?*&-]+")
_BREAKS = re.compile(r"\s+")
_MARKED = re.compile(r"(?P<words>.*) ~(?P<sum>[0-9a-f]{8})", re.DOTALL)


def node_objection(node: str) -> str:
    """Why this is no name of one node; empty where it is one. `ALL` is every node to Slurm."""
    if _NODE.fullmatch(node) and node.upper() != "ALL":
        return ""
    return f"{node[:80]!r} is no name of one node"


def incident_objection(incident: str) -> str:
    """Why this cannot stand in a reason as an incident's id; empty where it can."""
    if _INCIDENT.fullmatch(incident):
        return ""
    return f"{incident[:80]!r} is no id of an incident that could be known again in a reason"


def fit_reason(reason: str, most: int = MOST_REASON) -> str:
    """The reason on one line of ASCII, without what means something to those who read it."""
    line = _BREAKS.sub(" ", _UNFIT.sub(" ", reason)).strip()
    return line[:most].rstrip() or "no reason given"


def mark(words: str) -> str:
    """With a last word by which an edit is noticed."""
    return f"{words} ~{zlib.crc32(words.encode()):08x}"


def unmark(text: str) -> str | None:
    """The words, if they stand there as they were written; else None."""
    found = _MARKED.fullmatch(text)
    if found is None or mark(found["words"]) != text:
        return None
    return found["words"]
