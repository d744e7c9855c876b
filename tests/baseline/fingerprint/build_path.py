"""Whole machines by hand: what was read of them, each part as `NodePath` has it."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from rankmuster.model.fingerprint import NONE
from rankmuster.model.node_path import (
    ContainerFacts,
    CpuFacts,
    GpuPath,
    Link,
    Matrix,
    NicPath,
    NicPort,
    NodePath,
    NvLink,
    PciNode,
    SoftwareFacts,
)
from rankmuster.model.unknown import Unknown

TAKEN_AT = 1_764_576_000.0  # 2025-12-01

SOFTWARE = SoftwareFacts(
    image_digest="sha256:" + "ab" * 32,
    cuda_runtime="13.0",
    nccl="2.28.9",
    pytorch="2.11.0",
    engine="vllm",
    engine_version="0.15.1",
)

NO_LINK_SAID = Link(*[Unknown("max_link_speed is not there")] * 4)


def links(count: int, remote: str = "switch", speed: float = 26.562) -> tuple[NvLink, ...]:
    return tuple(NvLink(number, "active", speed, "4.0", remote) for number in range(count))


def gpu(index: int, bus_id: str, numa: int, nvlinks: tuple[NvLink, ...], model: str = "NVIDIA H200") -> GpuPath:
    return GpuPath(
        index=index,
        uuid=f"GPU-{index:08x}-ad00-1d4d-28ae-b34ca7e1f7ca",
        bus_id=bus_id,
        model=model,
        vbios="96.00.A5.00.1A",
        numa=numa,
        pcie=Link(5, 16, 5, 16),
        links=nvlinks,
        mig="disabled",
        ecc="enabled",
    )


def device(
    address: str, root: str, parent: str | None, numa: int, of: tuple[str, str], class_code: str, link: Link
) -> PciNode:
    return PciNode(address, root, parent, class_code, *of, numa, link, False)


def peer_matrices(count: int, word: str = "OK") -> dict[str, Matrix]:
    pairs = list(product(range(count), repeat=2))
    return {kind: Matrix(kind, {(f"GPU{a}", f"GPU{b}"): "X" if a == b else word for a, b in pairs}) for kind in "rwnap"}


def near_matrix(gpus: int, word: str) -> Matrix:
    return Matrix("m", {(f"GPU{a}", f"GPU{b}"): "X" if a == b else word for a, b in product(range(gpus), repeat=2)})


def h200_vm() -> NodePath:
    """Four H200s in a VM: a flat PCI tree without NUMA nodes, a virtio NIC that gives no rate."""
    gpus = tuple(gpu(i, f"0000:00:{6 + i:02x}.0", -1, links(18)) for i in range(4))
    pci = [
        device(f"0000:00:{6 + i:02x}.0", "pci0000:00", None, -1, ("0x10de", "0x2335"), "0x030200", Link(5, 16, 5, 16))
        for i in range(4)
    ]
    pci += [
        device("0000:00:03.0", "pci0000:00", None, -1, ("0x1af4", "0x1041"), "0x020000", NO_LINK_SAID),
        device("0000:00:01.0", "pci0000:00", None, -1, ("0x1af4", "0x1042"), "0x018000", NO_LINK_SAID),
    ]
    said = Unknown("/sys/class/net/eth0/speed says '-1'")
    eth0 = NicPath(
        name="eth0",
        rdma=False,
        address="0000:00:03.0",
        model="0x1af4:0x1041",
        firmware=Unknown("an Ethernet interface does not say"),
        guid=Unknown("an Ethernet interface has none"),
        numa=-1,
        netdev="eth0",
        ports=(NicPort(1, "up", "Ethernet", said, 1500, ()),),
    )
    return NodePath(
        host="vm-1",
        taken_at=TAKEN_AT,
        driver="580.159.04",
        cuda_driver="13.0",
        gpus=gpus,
        nvswitches=0,
        matrices={"m": near_matrix(4, "NV18"), **peer_matrices(4)},
        pci=tuple(pci),
        nics=(eth0,),
        cpu=CpuFacts("GenuineIntel", "6", "207", 1, 1),
        container=ContainerFacts("docker", True, 512 << 30, float("inf"), "v2", (), "off", "none"),
        software=SOFTWARE,
        nccl_settings={},
    )


def hgx(gpu_model: str = "NVIDIA H100 80GB HBM3") -> NodePath:
    """Eight H100s on an NVSwitch board, two sockets, four PCIe switches with two GPUs and two NICs each."""
    gpus, nics, pci = [], [], []
    for switch in range(4):
        numa = switch // 2
        root = f"pci0000:{0x10 + 0x20 * switch:02x}"
        bus = 0x11 + 0x20 * switch
        port = f"0000:{bus - 1:02x}:01.0"
        upstream = f"0000:{bus:02x}:00.0"
        wide = Link(5, 16, 5, 16)
        pci.append(device(port, root, None, numa, ("0x8086", "0x352a"), "0x060400", wide))
        pci.append(device(upstream, root, port, numa, ("0x1000", "0xc030"), "0x060400", wide))
        for slot in range(4):
            down = f"0000:{bus + 1:02x}:{slot:02x}.0"
            end = f"0000:{bus + 2 + slot:02x}:00.0"
            pci.append(device(down, root, upstream, numa, ("0x1000", "0xc030"), "0x060400", wide))
            if slot < 2:
                pci.append(device(end, root, down, numa, ("0x10de", "0x2330"), "0x030200", wide))
                gpus.append(gpu(switch * 2 + slot, end, numa, links(18), gpu_model))
            else:
                pci.append(device(end, root, down, numa, ("0x15b3", "0x1021"), "0x020700", wide))
                number = switch * 2 + slot - 2
                nics.append(
                    NicPath(
                        name=f"mlx5_{number}",
                        rdma=True,
                        address=end,
                        model="MT4129",
                        firmware="28.39.1002",
                        guid=f"b83f:d203:00a1:{number:04x}",
                        numa=numa,
                        netdev=f"ib{number}",
                        ports=(
                            NicPort(1, "ACTIVE", "InfiniBand", 400.0, 4096, ((0, f"fe80::{number}", "IB/RoCE v1"),)),
                        ),
                    )
                )
    return NodePath(
        host="hgx-1",
        taken_at=TAKEN_AT,
        driver="570.133.20",
        cuda_driver="12.8",
        gpus=tuple(gpus),
        nvswitches=4,
        matrices={"m": near_matrix(8, "NV18"), **peer_matrices(8)},
        pci=tuple(pci),
        nics=tuple(nics),
        cpu=CpuFacts("GenuineIntel", "6", "143", 2, 2),
        container=ContainerFacts(
            NONE, True, 1 << 40, float("inf"), "v2", ("uverbs", "nvidia-caps-imex-channels"), "identity", "dmabuf"
        ),
        software=SOFTWARE,
        nccl_settings={"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"},
    )


def pcie_box() -> NodePath:
    """Four L40S without NVLink behind two root ports of one socket, and one RoCE NIC."""
    pci, gpus = [], []
    wide = Link(4, 16, 4, 16)
    for i in range(4):
        port, end = f"0000:{0x20 * i:02x}:01.0", f"0000:{0x20 * i + 1:02x}:00.0"
        root = f"pci0000:{0x20 * i:02x}"
        pci.append(device(port, root, None, 0, ("0x1022", "0x14ab"), "0x060400", wide))
        pci.append(device(end, root, port, 0, ("0x10de", "0x26b9"), "0x030200", wide))
        gpus.append(replace(gpu(i, end, 0, (), "NVIDIA L40S"), pcie=wide))
    pci.append(device("0000:60:02.0", "pci0000:60", None, 0, ("0x1022", "0x14ab"), "0x060400", wide))
    pci.append(device("0000:62:00.0", "pci0000:60", "0000:60:02.0", 0, ("0x15b3", "0x101d"), "0x020000", wide))
    nic = NicPath(
        "mlx5_0", True, "0000:62:00.0", "MT4125", "22.36.1010", "b83f:d203:00b2:0000", 0, "eth0",
        (NicPort(1, "ACTIVE", "Ethernet", 100.0, 9000, ((3, "::ffff:10.0.0.1", "RoCE v2"),)),),
    )  # fmt: skip
    return replace(
        hgx(),
        host="pcie-1",
        gpus=tuple(gpus),
        nvswitches=0,
        matrices={"m": near_matrix(4, "NODE"), **peer_matrices(4)},
        pci=tuple(pci),
        nics=(nic,),
        cpu=CpuFacts("AuthenticAMD", "25", "17", 1, 1),
        nccl_settings={},
    )


def without_sys(path: NodePath) -> NodePath:
    """The same machine from a container that has no /sys."""
    unread = Unknown("/sys/bus/pci/devices: no such file or directory")
    return replace(path, pci=unread, container=replace(path.container, sys_complete=False))
