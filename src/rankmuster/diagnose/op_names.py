"""What an operation's profiling name says: backend, operation, and for sends and receives the peer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_P2P = re.compile(r"^(send|recv) (\d{1,6})(?:->|<-)(\d{1,6})$")

EVENTLESS_BACKENDS = frozenset({"gloo", "nccl2"})
"""Backends whose entries never show `completed` (gloo always, nccl2 as of torch 2.14)."""


@dataclass(frozen=True, slots=True)
class OpName:
    """`nccl:send 0->1` is backend nccl, base `send 0->1`, kind send, peer 1 (a rank within its group).

    `ends_batch`: it is no operation of its own but what a coalesced group or a batch ends with.
    """

    base: str
    backend: str
    kind: str | None
    peer: int

    @property
    def ends_batch(self) -> bool:
        return self.base == "coalesced" or self.base.endswith("_coalesced")

    @property
    def eventless(self) -> bool:
        return self.backend in EVENTLESS_BACKENDS


@lru_cache(maxsize=8192)
def op_name(op: str) -> OpName:
    """The parts of `nccl:all_reduce`, `gloo:send 3->4`, or of a name without a backend."""
    backend, colon, base = op.partition(":")
    if not colon:
        backend, base = "", op
    found = _P2P.match(base)
    return OpName(base, backend, found.group(1), int(found.group(3))) if found else OpName(base, backend, None, -1)


def base_name(op: str) -> str:
    """`nccl:all_reduce` -> `all_reduce`; names without a backend prefix stay."""
    return op_name(op).base


def backend_of(op: str) -> str:
    """`nccl:all_reduce` -> `nccl`."""
    return op_name(op).backend
