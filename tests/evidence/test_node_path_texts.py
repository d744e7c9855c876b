"""Each text that a node's path may come from, in the shapes that tools and people give it, and in damaged ones."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import (
    cpu_text,
    foreign_locale,
    lspci,
    node_path_readers,
    nvlink_remotes,
    rdma_devices,
    shm_text,
    sys_net,
    sys_pci,
)
from rankmuster.evidence.blob import Blob, Reader, Reading
from rankmuster.evidence.node_path import NotOneNode, node_paths
from rankmuster.model.captured_path import RdmaDevice
from rankmuster.model.problem import ProblemKind
from rankmuster.model.unknown import Unknown

MODULES = (cpu_text, foreign_locale, lspci, nvlink_remotes, rdma_devices, shm_text, sys_net, sys_pci)
READERS = (*(module.PART for module in MODULES), node_path_readers.NODE_TEXT)

LSPCI = """\
0000:97:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 30) (prog-if 00 [Normal decode])
\tNUMA node: 1
\tBus: primary=97, secondary=98, subordinate=9b, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
\t\tLnkCap:\tPort #1, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 16GT/s (downgraded), Width x16 (ok)
\tCapabilities: [148 v1] Access Control Services
\t\tACSCap:\tSrcValid+ TransBlk+ ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-
\t\tACSCtl:\tSrcValid+ TransBlk- ReqRedir+ CmpltRedir+ UpstreamFwd+ EgressCtrl- DirectTrans-

0000:98:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H200 SXM 141GB] [10de:2335] (rev a1)
\tNUMA node: 1
\tCapabilities: [60] Express (v2) Endpoint, MSI 00
\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16, ASPM not supported
\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)
"""


def read(reader: Reader, text: str, path: str = "x.txt") -> Reading:
    blob = Blob(path, text.encode())
    assert reader.recognises(blob)
    return reader.read(blob)


def test_lspci_gives_the_tree_links_and_acs():
    [tree] = read(lspci.PART, f"u@node-a:~# lspci -Dvvvnn\n{LSPCI}").observations
    bridge, gpu = tree.nodes
    assert (tree.host, tree.placed) == ("node-a", True)
    assert (bridge.class_code, bridge.parent, bridge.acs_redirects, bridge.numa) == ("0x060400", None, True, 1)
    assert (gpu.parent, gpu.root, gpu.vendor, gpu.device) == ("0000:97:01.0", "pci0000:97", "0x10de", "0x2335")
    assert (gpu.link.generation, gpu.link.width, gpu.link.generation_max, gpu.link.width_max) == (1, 8, 5, 16)
    assert gpu.acs_redirects is False


def test_lspci_without_root_leaves_acs_and_links_unknown():
    lines = [line for line in LSPCI.splitlines() if "Lnk" not in line and "ACS" not in line and "Cap" not in line]
    text = "\n".join(lines).replace(
        "subordinate=9b, sec-latency=0", "subordinate=9b, sec-latency=0\n\tCapabilities: <access denied>"
    )
    [tree] = read(lspci.PART, text).observations
    assert isinstance(tree.nodes[0].acs_redirects, Unknown)
    assert "as root" in tree.nodes[0].acs_redirects.reason
    assert isinstance(tree.nodes[0].link.width, Unknown)


def test_plain_lspci_names_devices_and_does_not_place_them():
    text = (
        "97:01.0 PCI bridge: Intel Corporation Device 352a\n98:00.0 3D controller: NVIDIA Corporation GH100 (rev a1)\n"
    )
    [tree] = read(lspci.PART, text).observations
    assert tree.placed is False
    assert (tree.nodes[1].address, tree.nodes[1].class_code, tree.nodes[1].vendor) == (
        "0000:98:00.0",
        "0x030200",
        "0x10de",
    )


def test_a_capture_of_sys_may_be_one_line_a_file():
    place = "/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0"
    text = "".join(
        f"{place}/{name}: {value}\n"
        for name, value in (
            ("class", "0x030200"), ("vendor", "0x10de"), ("device", "0x2335"), ("numa_node", "1"),
            ("max_link_speed", "32.0 GT/s PCIe"), ("max_link_width", "16"),
        )
    )  # fmt: skip
    [tree] = read(sys_pci.PART, text).observations
    assert (tree.placed, tree.nodes[0].parent, tree.nodes[0].numa) == (True, "0000:97:01.0", 1)
    assert tree.nodes[0].link.generation_max == 5
    assert isinstance(tree.nodes[0].link.generation, Unknown)


def test_grep_and_ls_over_sys_say_the_same():
    text = (
        "/sys/bus/pci/devices/0000:98:00.0/class:0x030200\n/sys/bus/pci/devices/0000:98:00.0/vendor:0x10de\n"
        "lrwxrwxrwx 1 root root 0 Nov 29 22:42 0000:98:00.0 -> ../../../devices/pci0000:97/0000:97:01.0/0000:98:00.0\n"
    )
    [tree] = read(sys_pci.PART, text).observations
    assert (tree.placed, tree.nodes[0].parent) == (True, "0000:97:01.0")


def test_a_capture_that_was_cut_names_what_is_missing():
    reading = read(sys_pci.PART, "/sys/bus/pci/devices/0000:98:00.0/numa_node:0\n")
    assert reading.problems[0].kind is ProblemKind.DAMAGED
    assert not reading.observations


def test_interfaces_are_read_in_both_shapes():
    short = (
        "/sys/class/net/eth0 up 100000 1\n/sys/devices/pci0000:00/0000:00:03.0/virtio2\n/sys/class/net/lo unknown\n"
        "/sys/class/net/eth1 up -1\n/sys/devices/virtual/net/eth1\n"
    )
    [found] = read(sys_net.PART, short).observations
    first, second = found.nics
    assert (first.name, first.address, first.numa, first.ports[0].rate_gbps) == ("eth0", "0000:00:03.0", 1, 100.0)
    assert (second.address, isinstance(second.ports[0].rate_gbps, Unknown)) == (None, True)
    [found] = read(sys_net.PART, "/sys/class/net/eth0/speed:25000\n/sys/class/net/eth0/operstate:up\n").observations
    assert (found.nics[0].ports[0].rate_gbps, found.nics[0].ports[0].state) == (25.0, "up")


def test_df_is_read_in_each_of_its_units():
    for header, row, expected in (
        ("Size", "512G", 512 << 30),
        ("Size", "1.5G", 3 << 29),
        ("1K-blocks", "65536", 64 << 20),
        ("1B-blocks", "67108864", 64 << 20),
    ):
        text = f"Filesystem     {header}  Used Avail Use% Mounted on\ntmpfs  {row}     0  1   0% /dev/shm\n"
        [space] = read(shm_text.PART, text).observations
        assert space.size_bytes == expected


def test_numactl_tells_the_nodes():
    [found] = read(cpu_text.PART, "$ numactl -H\navailable: 2 nodes (0-1)\nnode 0 cpus: 0 1\n").observations
    assert found.cpu.numa_nodes == 2
    assert isinstance(found.cpu.vendor, Unknown)


def test_rdma_devices_are_told_by_ibstat_sysfs_and_ibdev2netdev():
    ibstat = (
        "CA 'mlx5_0'\n\tCA type: MT4129\n\tNode GUID: 0x02005e0000000001\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n"
    )
    device = next(each for each in read(rdma_devices.PART, ibstat).observations if isinstance(each, RdmaDevice))
    assert (device.model, device.guid) == ("MT4129", "0200:5e00:0000:0001")
    links = "lrwxrwxrwx 1 root root 0 mlx5_0 -> ../../devices/pci0000:97/0000:98:00.0/infiniband/mlx5_0\n"
    [device] = read(rdma_devices.PART, links).observations
    assert device.address == "0000:98:00.0"
    [device] = read(
        rdma_devices.PART, "0000:98:00.0 mlx5_0 (MT4129 - MCX75) CX-7 fw 28.4 port 1 (ACTIVE) ==> ib0 (Up)\n"
    ).observations
    assert (device.address, device.model, device.netdev) == ("0000:98:00.0", "MT4129", "ib0")
    [device] = read(rdma_devices.PART, "mlx5_0 port 1 ==> eth0 (Down)\n").observations
    assert (device.name, device.netdev) == ("mlx5_0", "eth0")


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("GPU 0: NVIDIA H200 (UUID: GPU-1)\n\t Link 0: 26,562 GB/s\n", "NVLink speeds with a decimal comma"),
        ("Architektur:             x86_64\nSockel:  2\n", "lscpu in another language"),
        ("Architecture :                          x86_64\n", "lscpu in another language"),
        ("架构：                x86_64\n", "lscpu in another language"),
        ("Dateisystem    Größe Benutzt Verf. Verw% Eingehängt auf\ntmpfs  1,5G  0  1,5G  0% /dev/shm\n", "df"),
        ("Sys. de fichiers Taille Utilisé Dispo Uti% Monté sur\ntmpfs  512G  0  512G  0% /dev/shm\n", "df"),
        ("/sys/bus/pci/devices/0000:98:00.0 class=0x030200 speed=2,5 GT/s PCIe\n", "PCIe speeds"),
        ("vendid=0x2c9\nswitchguid=0x02005e0000000008(02005e0000000008)\n", "a listing of a whole fabric"),
        ("VM_hostname vm01\n02005e0000000011\n", "a listing of a whole fabric"),
    ],
)
def test_another_locale_is_an_error_that_names_itself(text, what):
    reading = read(foreign_locale.PART, text)
    assert not reading.observations
    assert reading.problems[0].kind is ProblemKind.REFUSED
    assert what in reading.problems[0].message


def test_what_is_in_the_c_locale_is_not_taken_for_another():
    for text in (
        LSPCI,
        "Architecture:   x86_64\n",
        "Filesystem Size Used Avail Use% Mounted on\ntmpfs 1.5G 0 1 0% /dev/shm\n",
    ):
        assert not foreign_locale.PART.recognises(Blob("x", text.encode()))


SAMPLES = (
    LSPCI.encode(),
    b"/sys/bus/pci/devices/0000:98:00.0 class=0x030200 vendor=0x10de dev=0x2335 numa=-1 speed=32.0 GT/s PCIe width=16 "
    b"path=/sys/devices/pci0000:97/0000:97:01.0/0000:98:00.0\n/sys/class/net/eth0 up 100000 0\n",
    b"/sys/class/net/eth0/speed:100000\n/sys/class/net/eth0 up 9 9\n/sys/devices/pci0000:00/0000:00:03.0/virtio2\n",
    b"Architecture: x86_64\nModel: 207\nSocket(s): 2\nCPU family: 6\nNUMA node(s): 2\navailable: 2 nodes (0-1)\n",
    b"Filesystem      Size  Used Avail Use% Mounted on\ntmpfs  512G  0  512G  0% /dev/shm\n",
    b"CA 'mlx5_0'\n\tCA type: MT4129\n\tPort 1:\n\t\tState: Active\nmlx5_0 port 1 ==> ib0 (Up)\n"
    b"mlx5_1 -> ../0000:98:00.0/infiniband/mlx5_1\nmlx5_0/ports/1/state: 4: ACTIVE\nmlx5_0/node_guid: 1\n",
    b"$ nvidia-smi topo -m\n\tGPU0\tGPU1\nGPU0\t X \tNV18\nGPU1\tNV18\t X \n"
    b"GPU 0: A (UUID: GPU-1)\n\t Link 0: 25 GB/s\n",
    b"GPU 0: A (UUID: GPU-1)\n\t Link 0: 00000000:9B:00.0\n\t Link 1: FFFFFFFF:FF:FF.0\n",
    "\u00b2 Link 0: 26,562 GB/s\nArchitektur: x\n/sys/class/net/\u00b2 up \u00b2\n".encode(),
)
QUICK = settings(max_examples=60, deadline=None)


def survives(data: bytes) -> None:
    found: list[object] = []
    for reader in READERS:
        blob = Blob("node-a1/x.txt", data)
        assert isinstance(reader.recognises(blob), bool)
        reading = reader.read(blob)
        assert reading.known >= 0
        found += reading.observations
    with contextlib.suppress(NotOneNode):
        assert node_paths(found)


@QUICK
@given(st.binary(max_size=600))
def test_any_bytes_are_survived(data):
    survives(data)


@QUICK
@given(st.sampled_from(SAMPLES), st.integers(0, 600), st.integers(0, 600), st.binary(max_size=8))
def test_damaged_captures_are_survived(sample, start, length, middle):
    survives(sample[:start] + middle + sample[start + length :])


@QUICK
@given(st.lists(st.sampled_from(SAMPLES), max_size=4), st.integers(0, 3000))
def test_captures_that_are_mixed_and_cut_are_survived(samples, end):
    survives(b"".join(samples)[:end])


def test_long_lines_and_large_files_are_bounded():
    survives(b"0000:98:00.0 3D controller: " + b"x" * 3_000_000 + b"\n" + b"/sys/class/net/e" + b" up" * 400_000)
