"""One name for what recorders, logs and plugins call differently: `_all_gather_base`, `ALLGATHER`, `AllGather`."""

from __future__ import annotations

import re

COLLECTIVES = (
    "all_reduce",
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "broadcast",
    "reduce",
    "gather",
    "scatter",
    "barrier",
    "send",
    "recv",
    "coalesced",
    "other",
)
"""Classes of collectives. Sends and receives are none, and are counted all the same: engines wait in them too."""

_BY_BEGINNING = sorted(
    ((name.replace("_", ""), name) for name in COLLECTIVES if name != "other"), key=lambda pair: -len(pair[0])
)
_SEPARATORS = re.compile(r"[^a-z]")

_MOST_CHARACTERS = 64
"""Of an operation's name that are looked at: the longest that torch has is 36."""


def collective_of(op: str | None) -> str:
    """The class of an operation as anybody names it; "other" for what is not known.

    Backends stand in front (`nccl:all_reduce`), peers behind (`send 0->1`), variants at both ends (torch's
    c10d/Types.hpp, OpType, and the profiling names in ProcessGroupNCCL.cpp; NCCL's own in Inspector's lines).
    """
    if not op:
        return "other"
    plain = _SEPARATORS.sub("", op[:_MOST_CHARACTERS].rsplit(":", 1)[-1].lower())
    return next((name for beginning, name in _BY_BEGINNING if plain.startswith(beginning)), "other")
