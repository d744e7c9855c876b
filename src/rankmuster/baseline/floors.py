"""What a node must reach when there is no history: a fraction of what its hardware can do at most."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FloorInput:
    """What floors are computed from; None is unknown. Rates in GB/s of one direction.

    `nvlink_gbs`: sum over one GPU's NVLinks, 0 for none. `pcie_gbs`: of one GPU's slot. `nic_gbs`: sum over one
    node's NICs that carry the fabric. `gpu_count`: GPUs of one node that take part; `nodes`: how many nodes.
    """

    gpu_model: str | None
    gpu_count: int
    nvlink_gbs: float | None = None
    nvlink_switched: bool | None = None
    pcie_gbs: float | None = None
    nic_gbs: float | None = None
    nodes: int = 1
    peer_to_peer: bool | None = None
