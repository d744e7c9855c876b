"""The form of an entry of the catalogue: what a person has to know about one sub-kind at three in the morning."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.fault import FaultClass, Subkind
from rankmuster.model.plane import Plane

TIMEOUT_RULE = (
    "What a group's own history supports: three times the 99.9th percentile of its longest completed collectives, "
    "taken over at least 1000 of them and without the first use of the group; not below 60 s, so that the transport's "
    "own retries (about 30 s over RDMA with NCCL's defaults, about 60 s for a TCP connection) end first and name the "
    "path; and below the engine's own limit for a step (300 s in vLLM and SGLang), or that one ends the job instead."
)
"""The factor 3 leaves room for a load that the history has not seen; the two limits are measured in NCCL's defaults:
IB 4.096 us x 2^20 x 7 retries, sockets 34 retries whose pauses grow by 100 ms."""

TIMEOUT_NEVER = "No: what is waited for does not come later, and a longer time-out only delays the recovery."


@dataclass(frozen=True, slots=True)
class Entry:
    """One sub-kind. What to do and not to do stands in the recovery table and is not repeated here.

    `told_apart`: (a sub-kind or class that looks alike, what separates them). `seen_by` and `blind`: the planes that
    can see it with what they show, and those that cannot with the reason. `look_further`: commands, as typed.
    `timeout`: whether a longer time-out may be right.
    """

    subkind: Subkind
    meaning: str
    told_apart: tuple[tuple[Subkind | FaultClass, str], ...]
    seen_by: tuple[tuple[Plane, str], ...]
    blind: tuple[tuple[Plane, str], ...]
    causes: tuple[str, ...]
    look_further: tuple[str, ...]
    timeout: str = TIMEOUT_NEVER
