"""What differences of NICs, their order and what reaches them do."""

from __future__ import annotations

from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, DUMPS, Difference, Rule, Weight

_ACTIVE = "NCCL src/transport/net_ib: ports that are not ACTIVE are passed over"
_LINK = "NCCL src/graph/xml.cc: max_link_width and max_link_speed of /sys"
_GUIDE = "NCCL user guide, Environment Variables"


def _as_many(difference: Difference) -> bool:
    return len(str(difference.before).split()) == len(str(difference.after).split())


RULES = (
    Rule(
        "nicOrder",
        Weight.PATH,
        "NCCL numbers the NICs in another order: rail n of this node is not rail n of the others, so traffic crosses "
        "rails over the spine or goes by way of another GPU (PXN)",
        f"{_GUIDE}: NCCL_CROSS_NIC, NCCL_PXN_DISABLE; NICs are numbered as net_ib finds them",
        (BASELINE, DUMPS),
        _as_many,
    ),
    Rule("nicOrder", Weight.CLASS, "another number of NICs to put in order", "docs/fingerprint.md", (BASELINE, DUMPS)),
    Rule(
        "networkDeviceSet",
        Weight.CLASS,
        "other NICs, firmware or rates: another network below the same GPUs",
        "docs/fingerprint.md",
        (BASELINE, DUMPS),
    ),
    Rule(
        "nics/*/ports/*/state",
        Weight.PATH,
        "the port is not ACTIVE: NCCL passes it over, so its GPUs share the NICs of others or the job has a rail less",
        _ACTIVE,
        (ADMISSION,),
        lambda d: "ACTIVE" not in str(d.after).upper() and str(d.after).lower() != "up",
    ),
    Rule("nics/*/ports/*/state", Weight.PATH, "the port is in use again", _ACTIVE, (ADMISSION,)),
    Rule(
        "nics/*/ports/*/rate_gbps",
        Weight.SLOWER,
        "the port fell to a lower rate: NCCL builds its rings for that rate, and all rails wait for the slowest; "
        "look at "
        "the cable, the transceiver and the lanes (2X for 4X)",
        "NCCL src/transport/net_ib: speed x width of the port; src/graph/search.cc",
        (ADMISSION,),
        lambda d: d.fell,
    ),
    Rule(
        "nics/*/ports/*/rate_gbps",
        Weight.SLOWER,
        "the port has a higher rate",
        "NCCL src/transport/net_ib",
        (ADMISSION,),
    ),
    Rule(
        "nics/*/ports/*/link_layer",
        Weight.PATH,
        "InfiniBand and Ethernet were exchanged: RoCE needs a GID index and lossless queues, InfiniBand a subnet "
        "manager",
        f"{_GUIDE}: NCCL_IB_GID_INDEX; `Attempted to connect incompatible devices` is NCCL's answer to a mix",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "nics/*/ports/*/mtu",
        Weight.SLOWER,
        "another MTU: both ends take the smaller one",
        "ibv_query_port active_mtu; NCCL src/transport/net_ib takes the least of both",
        (ADMISSION,),
    ),
    Rule(
        "nics/*/ports/*/gid index",
        Weight.FAILS,
        "the RoCE v2 address moved to another GID index: with NCCL_IB_GID_INDEX set to the old one connections time "
        "out or use another network; without it NCCL from 2.21 on finds the new one",
        f"{_GUIDE}: NCCL_IB_GID_INDEX; Linux: the GID table moves when an address is removed and added",
        (ADMISSION,),
    ),
    Rule(
        "nics/*/pcie/width",
        Weight.SLOWER,
        "the NIC's own PCIe link is narrower: the NIC carries no more than that, whatever its port's rate, and all "
        "rails wait for it; NCCL takes the widest that the link can be and does not see it; reseat the card or riser",
        _LINK,
        (ADMISSION,),
        lambda d: d.fell,
    ),
    Rule(
        "nics/*/pcie/generation",
        Weight.SLOWER,
        "the NIC's own PCIe link runs at a lower speed, each generation half of the next: the NIC carries no more than "
        "that, and NCCL takes the highest that it can be and does not see it; look at the card, riser and BIOS",
        _LINK,
        (ADMISSION,),
        lambda d: d.fell,
    ),
    Rule(
        "nics/*/pcie/*_max", Weight.CLASS, "what the NIC's slot can do is another thing", _LINK, (BASELINE, ADMISSION)
    ),
    Rule("nics/*/pcie/*", Weight.SLOWER, "the NIC's own PCIe link is wider or faster than it was", _LINK, (ADMISSION,)),
    Rule(
        "nics/*/rdma",
        Weight.PATH,
        "the NIC is used by RDMA or by sockets alone: NCCL takes NET/IB where any RDMA device is, else NET/Socket",
        "NCCL src/transport/net_ib and net_socket",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "nics/*/firmware",
        Weight.NODE,
        "other NIC firmware: congestion control and adaptive routing may differ; a mix in one job is a known "
        "cause of slow "
        "rails",
        "vendor release notes; Azure and OCI node health checks compare it",
        (ADMISSION,),
    ),
    Rule(
        "nics/*/guid",
        Weight.NODE,
        "the NIC was swapped: the class is the same, this part of the node is not; re-admit the node",
        "node_guid names the board",
        (ADMISSION,),
    ),
    Rule(
        "nics/*/numa",
        Weight.PATH,
        "the NIC belongs to another NUMA node: it is near to other GPUs",
        "NCCL src/graph/topo.cc",
        (ADMISSION, DUMPS),
    ),
    Rule(
        "nics/*/address",
        Weight.NODE,
        "the NIC is on another bus; where it is near to other GPUs the topology hash says so",
        "NCCL src/graph/xml.cc",
        (ADMISSION,),
    ),
    Rule("nics/*/model", Weight.CLASS, "another NIC model", "docs/fingerprint.md", (BASELINE, ADMISSION)),
    Rule(
        "nics/*/netdev",
        Weight.NODE,
        "the interface has another name: NCCL_SOCKET_IFNAME may no longer fit it",
        f"{_GUIDE}: NCCL_SOCKET_IFNAME",
        (ADMISSION,),
    ),
    Rule(
        "nics/*",
        Weight.PATH,
        "the NIC is gone: a rail less, and its GPUs send through NICs of others",
        _ACTIVE,
        (BASELINE, ADMISSION),
        lambda d: d.lost and d.path.count("/") == 1,
    ),
    Rule(
        "nics/*",
        Weight.PATH,
        "a NIC more: another rail",
        _ACTIVE,
        (BASELINE, ADMISSION),
        lambda d: d.before is None and d.path.count("/") == 1,
    ),
    Rule(
        "*gpudirect",
        Weight.PATH,
        "no GPUDirect RDMA (neither nvidia_peermem nor DMA-BUF): everything between GPU and NIC bounces through host "
        "memory, `via NET/IB/0` without /GDRDMA",
        "NCCL src/transport/net_ib: nvidia_peermem in /sys/module, ibv_reg_dmabuf_mr",
        (BASELINE, ADMISSION),
        lambda d: d.after == "none",
    ),
    Rule(
        "*gpudirect",
        Weight.PATH,
        "GPUDirect RDMA goes another way (DMA-BUF, nvidia_peermem): NCCL takes DMA-BUF first",
        "NCCL src/transport/net_ib; NCCL_DMABUF_ENABLE",
        (BASELINE,),
    ),
)
"""First that fits."""
