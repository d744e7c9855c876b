"""Whose reply is it? Every job of one user on a node listens on the same port, and a reply holds no name of its job."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from enum import Enum

from rankmuster.evidence import ras_json, ras_text
from rankmuster.evidence.blob import Blob

_PIDS = re.compile(
    rb'"pid"\s*:\s*(\d{1,10})|\bprocess (\d{1,10}) on node |^  Process (\d{1,10}) on node ', re.MULTILINE
)
_RELEASE = re.compile(rb'"nccl_version"\s*:\s*"([^"\n]{1,40})"|^NCCL version (\S{1,40}) compiled with', re.MULTILINE)
_HEAD = 8192
_READERS = (ras_json.READER, ras_text.READER)


class Whose(str, Enum):
    """OURS: it names a process of the instance. ANOTHERS: JSON that names processes, none of them ours. UNSAID: it
    names none (no communicator yet), or is a text report, which names only those that are missing or differ: they may
    be on another node, or have ended, and belong to the instance all the same."""

    OURS = "ours"
    ANOTHERS = "anothers"
    UNSAID = "unsaid"


def whose(reply: bytes, pids: Collection[int]) -> Whose:
    """`pids`: the instance's processes on this node as they see themselves, as NCCL writes them."""
    known = frozenset(pids)
    named = False
    for pid in _pids(reply):
        named = True
        if pid in known:
            return Whose.OURS
    # JSON lists every rank of every communicator, so that the process which answered, one of this node, is among them.
    complete = named and reply[:_HEAD].lstrip().startswith(b"{")
    return Whose.ANOTHERS if complete and known else Whose.UNSAID


def is_report(reply: bytes) -> bool:
    """Whether `diagnose` will take the bytes for a RAS report, whole or not: asked of its own readers."""
    blob = Blob("reply", reply)
    return any(reader.recognises(blob) for reader in _READERS)


def release_text(reply: bytes) -> str | None:
    """The NCCL release as the report names it."""
    match = _RELEASE.search(reply[:_HEAD])
    return (match.group(1) or match.group(2)).decode("ascii", errors="replace") if match else None


def _pids(reply: bytes) -> Iterable[int]:
    return (int(next(group for group in match.groups() if group)) for match in _PIDS.finditer(reply))
