"""A node's path is read whole where it can be, and what cannot be read says why and holds up nothing else."""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import fields

import pytest
from node_tree import ACS_ON, NodeTree, flat_vm, switched_node

from rankmuster.collect.fingerprint import take
from rankmuster.collect.machine import Machine
from rankmuster.model.fingerprint import NONE
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

SECONDS = 8.0


def of(node: NodeTree | None, **options: object) -> NodePath:
    machine = node.machine if node is not None else Machine()
    wanted = {"deadline_s": SECONDS, "environ": {}, "now": lambda: 1796000000.0, **options}
    return take(machine, **wanted)  # type: ignore[arg-type]


def test_a_node_with_switches_is_read_whole(tmp_path, nvml):
    nvml()
    node = switched_node(tmp_path, 4)
    node.driver()
    path = of(node, environ={"NCCL_ALGO": "Ring"})
    assert (path.host, path.taken_at, path.driver, path.cuda_driver) == ("node-a", 1796000000.0, "580.159.04", "13.0")
    assert [gpu.bus_id for gpu in path.gpus] == [f"0000:{bus:02x}:00.0" for bus in (0x9A, 0x9B, 0x9C, 0x9D)]
    assert [gpu.numa for gpu in path.gpus] == [0, 0, 1, 1]
    first = path.gpus[0]
    assert (first.model, first.vbios, first.mig, first.ecc) == ("Fake H200", "96.00.A5.00.1A", "Disabled", "Enabled")
    assert (first.pcie.generation_max, first.pcie.width, first.pcie.width_max) == (5, 8, 16)
    assert [(link.state, link.remote) for link in first.links] == [("active", "switch")] * 2 + [("inactive", "switch")]
    assert first.links[0].speed_gbps == pytest.approx(26.562)
    assert path.matrices["m"].cells["GPU0", "GPU3"] == "NV2"
    assert path.matrices["mp"].cells["GPU0", "GPU1"] == "PIX"
    assert path.matrices["mp"].cells["GPU0", "GPU3"] == "SYS"
    assert path.matrices["r"].cells["GPU2", "GPU1"] == "OK"
    assert path.matrices["a"].cells["GPU2", "GPU1"] == "NS"
    assert path.matrices["w"].cells["GPU1", "GPU1"] == "X"
    assert path.matrices["m"].nics["NIC0"] == "mlx5_0"
    assert path.matrices["m"].cells["GPU0", "NIC0"] == "PIX"
    assert path.matrices["m"].cells["GPU0", "NIC1"] == "NODE"
    assert path.matrices["m"].cells["NIC3", "GPU0"] == "SYS"
    assert path.container.sys_complete is True
    assert path.container.gpudirect == "dmabuf"
    assert path.container.iommu == "off"
    assert path.container.devices == ("uverbs",)
    assert path.nccl_settings == {"NCCL_ALGO": "Ring"}
    assert path.nccl_conf == (), "set by the environment, and no nccl.conf adds to it"
    assert (path.cpu.vendor, path.cpu.sockets, path.cpu.numa_nodes) == ("GenuineIntel", 2, 2)
    assert path.nvswitches == 0


def test_nics_are_in_the_order_of_their_addresses_and_storage_comes_last_by_its_own(tmp_path):
    path = of(switched_node(tmp_path))
    assert [nic.name for nic in path.nics] == [f"mlx5_{at}" for at in range(9)]
    nic = path.nics[8]
    assert (nic.netdev, nic.model, nic.firmware, nic.numa) == ("eth9", "MT4129", "28.43.2566", 1)
    port = nic.ports[0]
    assert (port.state, port.link_layer, port.rate_gbps, port.mtu) == ("PORT_ACTIVE", "Ethernet", 400.0, 9000)
    assert port.gids == ((0, "fe80:0000:0000:0000:0200:5e00:0000:0000", "RoCE v2"),)
    assert isinstance(path.nics[0].ports[0].mtu, Unknown)


def test_the_order_of_the_kernel_is_kept_where_nccl_is_told_to_keep_it(tmp_path):
    path = of(switched_node(tmp_path, 4), environ={"NCCL_IB_DEVICE_PCI_ORDER": "0"})
    assert [nic.name for nic in path.nics] == ["mlx5_4", "mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"]


def test_a_port_that_redirects_is_seen_and_the_weaker_end_limits_a_link(tmp_path):
    node = switched_node(tmp_path, 2, acs=ACS_ON)
    (node.sys / "bus/pci/devices/0000:21:00.0/max_link_width").write_text("8\n")
    tree = {device.address: device for device in of(node).pci}
    assert tree["0000:10:01.0"].acs_redirects is True
    assert tree["0000:20:00.0"].acs_redirects is False  # an upstream port without the capability
    assert tree["0000:9a:00.0"].parent == "0000:21:00.0"
    assert tree["0000:9a:00.0"].root == "pci0000:10"
    assert tree["0000:9a:00.0"].link.width_max == 8
    assert tree["0000:9a:00.0"].link.generation == 1  # idle


def test_switched_off_peer_to_peer_shows_in_its_matrix_alone(tmp_path, nvml):
    nvml(p2p="r4")
    path = of(switched_node(tmp_path, 4))
    assert path.matrices["r"].cells["GPU0", "GPU1"] == "DR"
    assert path.matrices["w"].cells["GPU0", "GPU1"] == "OK"


def test_a_virtual_machine_is_flat_and_its_switches_are_assumed_as_nccl_does(tmp_path, nvml):
    nvml("vm")
    path = of(flat_vm(tmp_path))
    assert {link.remote for gpu in path.gpus for link in gpu.links} == {"switch"}
    assert [gpu.numa for gpu in path.gpus] == [-1] * 4
    assert path.matrices["m"].cells["GPU0", "GPU1"] == "NV2"
    card = path.nics[0]
    assert (card.name, card.rdma, card.address, card.model) == ("eth0", False, "0000:00:03.0", "0x1af4:0x1041")
    assert isinstance(card.ports[0].rate_gbps, Unknown)
    device = next(node for node in path.pci if node.address == "0000:00:03.0")
    assert device.link.width_max == 0  # known to have none


def test_links_between_gpus_are_counted_where_there_is_no_switch(tmp_path, nvml):
    nvml("mesh")
    path = of(switched_node(tmp_path, 4))
    assert [link.remote for link in path.gpus[0].links] == ["gpu:1", "gpu:2", "gpu:3"]
    assert path.matrices["m"].cells["GPU0", "GPU1"] == "NV1"
    assert path.matrices["m"].cells["GPU0", "GPU3"] == "SYS"  # that link is down


def test_a_gpu_that_hangs_is_unknown_and_the_others_are_told_in_time(tmp_path, nvml):
    nvml("block")
    began = time.monotonic()
    path = of(switched_node(tmp_path, 4), deadline_s=6.0)
    assert time.monotonic() - began < 8.0
    stuck, well = path.gpus[2], path.gpus[1]
    assert well.vbios == "96.00.A5.00.1A"
    assert isinstance(stuck.links, Unknown)
    assert "GPU 2 has not answered nvmlDeviceGetFieldValues" in stuck.links.reason
    assert path.matrices["r"].cells["GPU0", "GPU3"] == "OK"
    assert ("GPU0", "GPU2") not in path.matrices["r"].cells
    assert isinstance(path.nics, tuple)


def test_nvml_that_does_not_start_leaves_the_rest_readable(tmp_path, nvml):
    nvml("init-blocks")
    path = of(switched_node(tmp_path, 4), deadline_s=3.0)
    assert isinstance(path.gpus, Unknown)
    assert "NVML was asked to start" in path.gpus.reason
    assert isinstance(path.driver, Unknown)
    assert len(path.pci) == 4 * 6 + 1
    assert isinstance(path.container.sys_complete, Unknown)


def test_a_lost_gpu_says_so(tmp_path, nvml):
    nvml("lost")
    lost = of(switched_node(tmp_path, 4)).gpus[2]
    assert isinstance(lost.vbios, Unknown)
    assert "GPU is lost" in lost.vbios.reason


def test_a_child_that_dies_leaves_what_it_had_not_told_unknown(tmp_path, nvml):
    nvml("crash-soon")
    path = of(switched_node(tmp_path, 4))
    unknown = [gpu for gpu in path.gpus if isinstance(gpu.links, Unknown)]
    assert unknown
    assert "killed by signal 11" in unknown[0].links.reason


def test_no_driver_means_no_gpus_only_where_none_is_on_pci(tmp_path, nvml):
    nvml("no-driver")
    bare = NodeTree(tmp_path / "bare")
    path = of(bare)
    assert (path.gpus, path.driver, path.matrices) == ((), NONE, {})
    cards = of(switched_node(tmp_path / "cards", 2)).gpus
    assert isinstance(cards, Unknown)
    assert "2 NVIDIA GPU(s) are on PCI" in cards.reason


def test_a_masked_sys_is_unknown_and_what_it_costs_is_said(tmp_path, nvml):
    nvml()
    node = switched_node(tmp_path, 4)
    shutil.rmtree(node.sys)
    path = of(node)
    assert len(path.gpus) == 4
    assert isinstance(path.gpus[0].numa, Unknown)
    assert isinstance(path.pci, Unknown)
    assert isinstance(path.nics, Unknown)
    assert path.container.sys_complete is False
    assert isinstance(path.container.iommu, Unknown)


def test_a_gpu_or_nic_that_is_missing_in_sys_is_found_out(tmp_path, nvml):
    nvml()
    node = switched_node(tmp_path / "gpu", 4)
    (node.sys / "bus/pci/devices/0000:9c:00.0").unlink()
    assert of(node).container.sys_complete is False
    node = switched_node(tmp_path / "nic", 4)
    (node.dev / "infiniband/uverbs77").write_text("")
    assert of(node).container.sys_complete is False


def test_an_empty_machine_gives_an_answer_of_unknowns(tmp_path):
    machine = Machine("bare", *(tmp_path / name for name in ("proc", "sys", "dev", "etc", "run")))
    path = take(machine, deadline_s=3.0, environ={}, now=time.time)
    assert isinstance(path.pci, Unknown)
    assert isinstance(path.cpu.vendor, Unknown)
    assert isinstance(path.container.memlock_bytes, Unknown)
    assert isinstance(path.container.shm_bytes, Unknown)


def test_this_machine_answers_within_its_time():
    began = time.monotonic()
    path = of(None, environ=os.environ)
    assert time.monotonic() - began < SECONDS + 1
    assert path.container.shm_bytes == os.statvfs("/dev/shm").f_frsize * os.statvfs("/dev/shm").f_blocks
    assert isinstance(path.cpu.vendor, (str, Unknown))
    assert {name for name, _ in path.sources} >= {"NVML", "the PCI tree", "the order of NICs"}
    assert {field.name for field in fields(path)} >= {"gpus", "nics"}


def test_a_time_that_is_too_short_gives_unknowns_and_no_error():
    path = of(None, deadline_s=0.0)
    assert isinstance(path.gpus, (tuple, Unknown))
