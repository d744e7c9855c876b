"""What a node must reach when there is no history: a part of what its own links can carry, named with its source.

Deliberately generous. A floor is there to refuse what is plainly broken (peer-to-peer off, half of the links gone, a
socket where RDMA should be) on a node that nobody has measured before; it says nothing of a loss of a tenth. Bounds
per operation, all in bus bandwidth per GPU, GB/s: within a node the slower of NVLink, else PCIe; over nodes a ring
carries at most what one node's NICs do together. Trees and NVLink SHARP carry more, never less.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.baseline.gpu_links import nvlink_of
from rankmuster.model.benchmark import Operation

NVLINK_SHARE = 0.5
"""Of the links' rate. Healthy systems of 2 to 72 GPUs reach 0.73 to 1.07 of it from 1 GiB on (published: A100 232 of
300, H100 and H200 without NVLS 360 of 450, B200 830 of 900, GB200 NVL72 840 of 900; measured: four H200s 338 of 450 at
256 MiB); two channels instead of all reach 0.11, a forced LL protocol 0.33, peer-to-peer off 0.05."""

SEND_RECV_SHARE = 0.25
"""Of the links' rate for send_recv: fewer channels per peer. Measured: four H200s 0.34 at 64 MiB, 0.67 at 256 MiB."""

PCIE_SHARE = 0.2
"""Of the slot's rate. Published: 8 RTX Pro 6000 reach 0.35 (two sockets, untuned) to 0.74 (switches) of it; through
shared memory every byte crosses the host's memory twice: measured 0.38 on H200s with peer-to-peer off."""

RDMA_SHARE = 0.4
"""Of the NICs' rate. Published: 0.8 (H100, 400G) to 0.98; a first run of an untuned fabric has half of that."""

SOCKET_SHARE = 0.1
"""Of the NICs' rate without RDMA: TCP over a few sockets reaches 20 to 60 Gb/s whatever the NIC can do."""

START_US = 150.0
"""Microseconds that any operation may take on top of its bytes. Healthy small operations take 24 to 75 us on one and
two nodes (published), up to 183 us on 256."""


@dataclass(frozen=True, slots=True)
class FloorInput:
    """What floors are computed from; None is unknown. Rates in GB/s of one direction.

    `gpu_count`: GPUs of one node that take part; `nodes`: how many nodes. `nvlink_gbs`: sum over one GPU's NVLinks as
    the hardware should have them, not those that are up; 0 for none. `nvlink_to_all`: every GPU of the node reaches
    every other over NVLink, directly or through switches. `pcie_gbs`: one GPU's slot at its best generation and
    width. `nic_gbs`: sum over the NICs of one node that carry the traffic; `rdma`: they do so by RDMA.
    """

    gpu_model: str | None
    gpu_count: int
    nvlink_gbs: float | None = None
    nvlink_to_all: bool | None = None
    pcie_gbs: float | None = None
    nic_gbs: float | None = None
    rdma: bool | None = None
    nodes: int = 1

    @property
    def ranks(self) -> int:
        """GPUs that take part on all nodes."""
        return max(1, self.gpu_count * self.nodes)


@dataclass(frozen=True, slots=True)
class Floor:
    """`rate`: GB/s of bus bandwidth at endless sizes; `factor`: bus bandwidth / algorithm bandwidth."""

    rate: float
    factor: float
    source: str

    def busbw(self, size_bytes: int) -> float:
        """The floor at one size: `START_US` and then the bytes at `rate`."""
        work = size_bytes * self.factor / 1e3  # GB/s times microseconds
        return work / (START_US + work / self.rate)


def floor_of(operation: Operation, given: FloorInput) -> tuple[Floor | None, str]:
    """The floor, or None and the reason why there is none."""
    if given.ranks < 2:
        return None, "a single GPU moves nothing over links"
    bounds: list[tuple[float, str]] = []
    if given.gpu_count > 1:
        inside = _inside(operation, given)
        if inside is None:
            return None, (
                f"no floor: how the GPUs of {given.gpu_model or 'this model'} are joined is not known (no NVLinks "
                "between all of them read or in the table, and the PCIe slot could not be read)"
            )
        bounds.append(inside)
    if given.nodes > 1:
        if given.nic_gbs is None:
            return None, "no floor: the rate of the NICs between the nodes is not known"
        bounds.append(_between(operation, given, given.nic_gbs))
    rate, source = min(bounds)
    return Floor(rate, operation.bus_factor(given.ranks), source), ""


def _inside(operation: Operation, given: FloorInput) -> tuple[float, str] | None:
    """Rate and source of the path between the GPUs of one node."""
    nvlink, of = given.nvlink_gbs, "as read from the node"
    to_all = given.nvlink_to_all
    listed = nvlink_of(given.gpu_model)
    if listed is not None:
        if nvlink is None:
            nvlink, of = listed.gbs, listed.source
        if to_all is None:
            to_all = listed.to_all or given.gpu_count <= 2
    if nvlink and to_all:
        share = SEND_RECV_SHARE if operation is Operation.SEND_RECV else NVLINK_SHARE
        return share * nvlink, f"{share:.2g} of the {nvlink:.4g} GB/s of one GPU's NVLinks ({of})"
    if given.pcie_gbs is None:
        return None
    return PCIE_SHARE * given.pcie_gbs, (
        f"{PCIE_SHARE:.2g} of the {given.pcie_gbs:.4g} GB/s of one GPU's PCIe slot (as read from the node; NVLink does "
        "not join all of its GPUs)"
    )


def _between(operation: Operation, given: FloorInput, nic_gbs: float) -> tuple[float, str]:
    """Rate and source of the path between nodes."""
    share = SOCKET_SHARE if given.rdma is False else RDMA_SHARE
    way = "sockets" if given.rdma is False else "RDMA"
    if operation is Operation.SEND_RECV:
        rate, split = nic_gbs / given.gpu_count, f", divided by {given.gpu_count} GPUs that send at once"
    elif operation is Operation.ALL_TO_ALL:
        # Of each GPU's bytes those for GPUs of other nodes cross its part of the NICs.
        outside = (given.ranks - given.gpu_count) / (given.ranks - 1)
        rate, split = nic_gbs / given.gpu_count / outside, f", a {given.gpu_count}th of which each GPU has"
    else:
        rate, split = nic_gbs, ""
    return share * rate, f"{share:.2g} of the {nic_gbs:.4g} GB/s of one node's NICs over {way}{split} (as read)"
