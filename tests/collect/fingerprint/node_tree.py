"""Machines made of files: /sys, /proc, /dev and /etc of a node as NCCL would see it, below a folder."""

from __future__ import annotations

import os
import struct
from pathlib import Path

from rankmuster.collect.machine import Machine

ACS_ON, ACS_OFF = 0x1D, 0x00
NVIDIA, MELLANOX = "0x10de", "0x15b3"
CPUINFO = "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Xeon\n"


def put(path: Path, text: str | bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())


def config_space(acs: int | None, size: int = 4096) -> bytes:
    """A PCI Express device's, with an AER capability before the one of ACS."""
    space = bytearray(size)
    if size > 0x100:
        following = 0x150 if acs is not None else 0
        space[0x100:0x104] = struct.pack("<I", 0x0001 | 2 << 16 | following << 20)
    if acs is not None:
        space[0x150:0x154] = struct.pack("<I", 0x000D | 1 << 16)
        space[0x156:0x158] = struct.pack("<H", acs)
    return bytes(space)


class NodeTree:
    """A folder with the roots of a `Machine`; devices are added one by one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.sys, self.proc, self.dev, self.etc = (root / name for name in ("sys", "proc", "dev", "etc"))
        for folder in (self.sys / "bus/pci/devices", self.sys / "class/net", self.sys / "class/iommu"):
            folder.mkdir(parents=True)
        (self.sys / "class/infiniband").mkdir()
        (self.sys / "module").mkdir()
        (self.sys / "kernel/iommu_groups").mkdir(parents=True)
        (self.dev / "shm").mkdir(parents=True)
        (self.dev / "infiniband").mkdir()
        self.etc.mkdir()
        put(self.proc / "cpuinfo", CPUINFO)
        put(
            self.proc / "self/limits",
            "Limit  Soft Limit\nMax locked memory         unlimited            unlimited   bytes\n",
        )
        put(self.proc / "self/cgroup", "0::/\n")
        put(self.proc / "self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n")
        put(self.proc / "2/stat", "2 (kthreadd) S 0 0 0 0 -1 2129984 " + "0 " * 40)
        put(self.proc / "sys/kernel/osrelease", "6.8.0-60-generic\n")
        for node in range(2):
            (self.sys / f"devices/system/node/node{node}").mkdir(parents=True)
            put(self.sys / f"devices/system/cpu/cpu{node}/topology/physical_package_id", f"{node}\n")

    @property
    def machine(self) -> Machine:
        return Machine("node-a", self.proc, self.sys, self.dev, self.etc, self.root / "run")

    def pci(
        self, place: str, code: str, vendor: str, device: str, *, numa: int = 0, acs: int | None = None, width: int = 16
    ) -> Path:
        """`place`: below /sys/devices, "pci0000:15/0000:15:01.0/0000:16:00.0"."""
        folder = self.sys / "devices" / place
        address = place.rsplit("/", 1)[1]
        for name, text in (("class", code), ("vendor", vendor), ("device", device), ("numa_node", str(numa))):
            put(folder / name, f"{text}\n")
        put(folder / "current_link_speed", "2.5 GT/s PCIe\n")
        put(folder / "max_link_speed", "32.0 GT/s PCIe\n")
        put(folder / "current_link_width", f"{width}\n")
        put(folder / "max_link_width", "16\n")
        put(folder / "config", config_space(acs))
        (self.sys / "bus/pci/devices" / address).symlink_to(os.path.relpath(folder, self.sys / "bus/pci/devices"))
        bus = self.sys / "class/pci_bus" / address[:7]
        bus.mkdir(parents=True, exist_ok=True)
        return folder

    def hca(
        self, name: str, device: Path, number: int, *, layer: str = "InfiniBand", netdev: str | None = None
    ) -> Path:
        """An RDMA device of one port on the PCI device at `device`; `number`: of its uverbs file."""
        folder = self.sys / "class/infiniband" / name
        at = folder / "ports/1"
        for file, text in (
            ("hca_type", "MT4129"),
            ("fw_ver", "28.43.2566"),
            ("node_guid", f"0200:5e00:0000:{number:04x}"),
        ):
            put(folder / file, f"{text}\n")
        for file, text in (("state", "4: ACTIVE"), ("rate", "400 Gb/sec (4X NDR)"), ("link_layer", layer)):
            put(at / file, f"{text}\n")
        put(at / "gids/0", f"fe80:0000:0000:0000:0200:5e00:0000:{number:04x}\n")
        put(at / "gids/1", "0000:0000:0000:0000:0000:0000:0000:0000\n")
        put(at / "gid_attrs/types/0", "IB/RoCE v1\n" if layer == "InfiniBand" else "RoCE v2\n")
        (folder / "device").symlink_to(os.path.relpath(device, folder))
        (device / "infiniband" / name).mkdir(parents=True)
        put(self.sys / f"class/infiniband_verbs/uverbs{number}/ibdev", f"{name}\n")
        put(self.dev / f"infiniband/uverbs{number}", "")
        if netdev is not None:
            (device / "net" / netdev).mkdir(parents=True)
            put(device / "net" / netdev / "mtu", "9000\n")
            self.interface(netdev, device)
        return folder

    def interface(
        self, name: str, device: Path | None, *, index: int = 2, speed: str = "100000", slaves: str = ""
    ) -> Path:
        folder = self.sys / "class/net" / name
        for file, text in (("operstate", "up"), ("speed", speed), ("mtu", "1500"), ("ifindex", str(index))):
            put(folder / file, f"{text}\n")
        if device is not None:
            (folder / "device").symlink_to(os.path.relpath(device, folder))
        if slaves:
            put(folder / "bonding/slaves", f"{slaves}\n")
        return folder

    def driver(self, *, opened: bool = True) -> None:
        kind = "Open Kernel Module for x86_64" if opened else "x86_64 Kernel Module"
        put(self.proc / "driver/nvidia/version", f"NVRM version: NVIDIA UNIX {kind}  580.159.04  Release Build\n")
        (self.sys / "module/nvidia").mkdir()


def switched_node(root: Path, gpus: int = 8, *, acs: int | None = ACS_OFF) -> NodeTree:
    """Each GPU below a PCIe switch of its own together with a NIC, half of them on each socket, and a ninth NIC for
    storage; GPU i sits at bus 9a+i, as the fake of NVML has it. The kernel numbered the NICs from the last."""
    node = NodeTree(root)
    for at in range(gpus):
        socket = 0 if at < (gpus + 1) // 2 else 1
        top = f"pci0000:{0x10 + at:02x}/0000:{0x10 + at:02x}:01.0"
        up, down, beside = (f"0000:{0x20 + 4 * at + step:02x}:00.0" for step in range(3))
        node.pci(top, "0x060400", "0x8086", "0x352a", numa=socket, acs=acs)
        node.pci(f"{top}/{up}", "0x060400", "0x1000", "0xc030", numa=socket, acs=None)
        node.pci(f"{top}/{up}/{down}", "0x060400", "0x1000", "0xc030", numa=socket, acs=acs)
        node.pci(f"{top}/{up}/{beside}", "0x060400", "0x1000", "0xc030", numa=socket, acs=acs)
        node.pci(f"{top}/{up}/{down}/0000:{0x9A + at:02x}:00.0", "0x030200", NVIDIA, "0x2335", numa=socket)
        card = node.pci(f"{top}/{up}/{beside}/0000:{0xB0 + at:02x}:00.0", "0x020700", MELLANOX, "0x1021", numa=socket)
        node.hca(f"mlx5_{at}", card, gpus - at)
    storage = node.pci("pci0000:f0/0000:f0:00.0", "0x020000", MELLANOX, "0x101d", numa=1)
    node.hca(f"mlx5_{gpus}", storage, 0, layer="Ethernet", netdev="eth9")
    return node


def flat_vm(root: Path, gpus: int = 4) -> NodeTree:
    """As virtual machines are: everything on one bus, no NUMA node, no link of the host's own devices."""
    node = NodeTree(root)
    for at in range(gpus):
        node.pci(f"pci0000:00/0000:{0x9A + at:02x}:00.0", "0x030200", NVIDIA, "0x2335", numa=-1)
    card = node.pci("pci0000:00/0000:00:03.0", "0x020000", "0x1af4", "0x1041", numa=-1)
    for name in ("current_link_speed", "max_link_speed", "current_link_width", "max_link_width"):
        (card / name).unlink()
    (card / "virtio2").mkdir()
    node.interface("eth0", card / "virtio2", speed="-1")
    return node
