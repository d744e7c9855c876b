"""Collectives by one bounded set of names, whatever torch, NCCL or an engine calls them: for labels of metrics."""

from __future__ import annotations

import re
from functools import lru_cache

OTHER = "other"

COLLECTIVE_NAMES = (
    *("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"),
    *("send", "recv", "barrier", OTHER),
)
"""Every name that `collective_name` gives."""

_LONGEST = 128
"""Characters of a spelling that are looked at; the longest seen is `nccl:reduce_scatter_tensor_coalesced`."""

# The first that the spelling, reduced to its letters, begins with: longer ones before those they begin with.
_BEGINNINGS = (
    ("allreduce", "all_reduce"),
    ("allgather", "all_gather"),
    ("reducescatter", "reduce_scatter"),
    ("alltoall", "all_to_all"),
    ("barrier", "barrier"),
    ("broadcast", "broadcast"),
    ("bcast", "broadcast"),
    ("reduce", "reduce"),
    ("isend", "send"),
    ("send", "send"),
    ("irecv", "recv"),
    ("recv", "recv"),
    ("receive", "recv"),
)
_NOT = ("sendrecv", "reducer")
"""Spellings of both directions at once, and words that only begin like an operation."""
_TEXT = re.compile(r"[^a-z]")


@lru_cache(maxsize=512)
def collective_name(said: str) -> str:
    """One of COLLECTIVE_NAMES for `AllReduce`, `ALLREDUCE`, `nccl:all_reduce`, `_allgather_base`, `alltoall_v`, ...

    `other` for what is none of them (gather, scatter, a name nobody knows).
    """
    letters = _TEXT.sub("", said[:_LONGEST].lower().rpartition(":")[2]).removeprefix("nccl").removeprefix("coalesced")
    if letters.startswith(_NOT):
        return OTHER
    return next((name for beginning, name in _BEGINNINGS if letters.startswith(beginning)), OTHER)
