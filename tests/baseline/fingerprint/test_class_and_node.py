"""Which nodes are of one class, of one kin, and the same machine; what is unknown equals nothing and says why."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from baseline.fingerprint.build_path import h200_vm, hgx, pcie_box
from baseline.fingerprint.mutations import MUTATIONS, another, container, gpu, setting, software
from baseline.fingerprint.relabel import relabelled
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.model.fingerprint import NONE, Fingerprint, NetworkDevice
from rankmuster.model.node_path import NicPath, NicPort, NodePath
from rankmuster.model.unknown import Unknown


def taken(path: NodePath) -> Fingerprint:
    return fingerprint_of(path)


def reason(value: object) -> str:
    assert isinstance(value, Unknown), value
    return value.reason


@pytest.mark.parametrize("make", [h200_vm, hgx, pcie_box])
def test_every_hash_of_a_machine_that_was_read_whole_is_known(make: object) -> None:
    found = taken(make())
    for value in (found.class_hash, found.kin_hash, found.node_hash, found.topology_hash):
        assert isinstance(value, str)
        assert value.startswith("sha256:")
        assert len(value) == len("sha256:") + 64
    assert len({found.class_hash, found.kin_hash, found.node_hash, found.topology_hash}) == 4


def test_another_machine_of_the_kind_is_of_the_class_and_is_not_this_one() -> None:
    one, other = taken(hgx()), taken(another(hgx()))
    assert (one.class_hash, one.kin_hash, one.nic_order) == (other.class_hash, other.kin_hash, other.nic_order)
    assert one.node_hash != other.node_hash


SAME_CLASS = (
    *("nothing", "links lost", "half width", "idle", "rate", "port down", "gpu swapped", "nic swapped", "vbios"),
    *("logging", "memlock", "shm a little less", "another machine"),
)


@pytest.mark.parametrize("name", SAME_CLASS)
def test_what_does_not_change_the_kind_of_a_node_leaves_its_class(name: str) -> None:
    assert taken(MUTATIONS[name](hgx())).class_hash == taken(hgx()).class_hash


@pytest.mark.parametrize(
    "name",
    ["acs", "iommu", "peermem", "p2p", "shm", "mig", "ecc", "proto", "algo", "hca", "unheard of", "sys incomplete"],
)
def test_what_is_set_otherwise_is_kin_of_another_class(name: str) -> None:
    one, other = taken(hgx()), taken(MUTATIONS[name](hgx()))
    assert one.kin_hash == other.kin_hash
    assert one.class_hash != other.class_hash


@pytest.mark.parametrize(
    "name",
    ["driver", "nccl", "cuda", "torch", "image", "engine", "gpu lost", "nic lost", "nic order", "firmware", "cpu"],
)
def test_other_versions_and_hardware_are_no_kin(name: str) -> None:
    one, other = taken(hgx()), taken(MUTATIONS[name](hgx()))
    assert one.kin_hash != other.kin_hash
    assert one.class_hash != other.class_hash


def test_a_machine_is_the_same_whatever_is_installed_and_in_whatever_slot() -> None:
    one = taken(hgx())
    assert taken(MUTATIONS["driver"](hgx())).node_hash == one.node_hash
    swapped = replace(hgx(), gpus=tuple(replace(g, index=7 - g.index) for g in hgx().gpus[::-1]))
    assert taken(swapped).node_hash == one.node_hash
    assert taken(MUTATIONS["gpu swapped"](hgx())).node_hash != one.node_hash


def test_an_unknown_part_is_named_with_how_to_give_it() -> None:
    found = taken(software(hgx(), image_digest=Unknown("in a container whose digest no variable names")))
    told = "imageDigest unknown: in a container whose digest no variable names; give --image-digest"
    assert told in reason(found.kin_hash)
    assert told in reason(found.class_hash)
    assert isinstance(found.topology_hash, str)
    assert isinstance(found.node_hash, str)


def test_several_unknown_parts_are_all_named() -> None:
    path = replace(software(hgx(), nccl=Unknown("no libnccl")), driver=Unknown("no NVML"))
    found = reason(taken(path).class_hash)
    assert "ncclVersion unknown: no libnccl" in found
    assert "driver unknown: no NVML" in found


def test_an_unknown_setting_is_of_the_class_alone() -> None:
    found = taken(MUTATIONS["acs unknown"](hgx()))
    assert isinstance(found.kin_hash, str)
    assert "setting acs unknown: needs root" in reason(found.class_hash)
    unread = taken(replace(hgx(), nccl_settings=Unknown("/proc/7/environ: permission denied")))
    assert "NCCL_* unknown: /proc/7/environ" in reason(unread.class_hash)


def test_two_nodes_whose_same_part_is_unknown_are_not_of_one_class() -> None:
    path = MUTATIONS["driver unknown"](hgx())
    assert taken(path).class_hash != taken(path).class_hash


def test_acs_does_not_matter_where_nothing_crosses_pcie() -> None:
    vm = replace(h200_vm(), pci=tuple(replace(n, acs_redirects=Unknown("needs root")) for n in h200_vm().pci))
    found = taken(container(vm, iommu=Unknown("masked"), gpudirect=Unknown("masked")))
    assert isinstance(found.class_hash, str)
    assert not {"acs", "iommu", "gpudirect"} & set(found.settings)
    assert {"acs", "iommu", "gpudirect"} <= set(taken(pcie_box()).settings)


def test_a_peer_matrix_that_was_not_read_is_unknown() -> None:
    found = taken(replace(hgx(), matrices={}))
    assert isinstance(found.settings["p2p.read"], Unknown)
    assert isinstance(found.class_hash, Unknown)
    single = replace(hgx(), gpus=hgx().gpus[:1], matrices={})
    assert "p2p.read" not in taken(single).settings


def test_values_that_only_log_are_no_setting() -> None:
    found = taken(
        setting(hgx(), NCCL_TOPO_DUMP_FILE="/t/x", NCCL_TOPO_FILE="/t/y", NCCL_RAS_ADDR=":1", NCCL_HOSTID="a")
    )
    assert {name for name in found.settings if name.startswith("NCCL_")} == {"NCCL_IB_HCA", "NCCL_TOPO_FILE"}


def test_a_machine_without_gpus_has_a_fingerprint_and_no_name() -> None:
    bare = replace(h200_vm(), gpus=(), driver=NONE, matrices={}, software=replace(h200_vm().software, nccl=NONE))
    found = taken(bare)
    assert (found.gpu_model, found.gpu_count) == (NONE, 0)
    assert isinstance(found.class_hash, str)
    assert "nothing else names it" in reason(found.node_hash)


def test_a_mixed_node_names_all_models() -> None:
    assert taken(gpu(hgx(), 0, model="NVIDIA H200")).gpu_model == "7 x NVIDIA H100 80GB HBM3, 1 x NVIDIA H200"


def test_the_network_devices_are_counted_by_kind() -> None:
    kind = NetworkDevice("MT4129", "InfiniBand", 400.0, "28.39.1002", 8)
    assert taken(hgx()).network_device_set == (kind,)
    mixed = taken(MUTATIONS["firmware"](hgx())).network_device_set
    assert mixed == (replace(kind, firmware="28.38.1000", count=1), replace(kind, count=7))
    assert taken(MUTATIONS["rate"](hgx())).network_device_set == (kind,)


def test_ethernet_interfaces_count_only_without_rdma() -> None:
    port = NicPort(1, "up", "Ethernet", 25.0, 1500, ())
    no = Unknown("not told")
    eth = NicPath("eth9", False, None, no, no, no, -1, "eth9", (port,))
    assert taken(replace(hgx(), nics=(*hgx().nics, eth))).class_hash == taken(hgx()).class_hash
    alone = taken(replace(h200_vm(), nics=(eth,)))
    assert alone.network_device_set == (NetworkDevice("virtual", "Ethernet", None, None, 1),)


def every_port(path: NodePath, **changed: object) -> NodePath:
    return replace(
        path, nics=tuple(replace(nic, ports=tuple(replace(p, **changed) for p in nic.ports)) for nic in path.nics)
    )


def of_model(path: NodePath, model: str | Unknown) -> NodePath:
    return replace(path, nics=tuple(replace(nic, model=model) for nic in path.nics))


@pytest.mark.parametrize("make", [h200_vm, hgx, pcie_box], ids=["interface", "eight NICs", "one NIC"])
@pytest.mark.parametrize("model", [None, "0x15b3:0x1021", "0x14e4:0x1750", "bnxt_re"])
@pytest.mark.parametrize(
    "fell",
    [{"rate_gbps": 25.0}, {"rate_gbps": 10.0, "state": "DOWN"}, {"rate_gbps": Unknown("says '0 Gb/sec'")}],
    ids=["slower", "down", "no rate"],
)
def test_ports_that_fell_leave_the_class_also_where_all_of_the_node_did(
    make: Callable[[], NodePath], model: str | None, fell: dict[str, object]
) -> None:
    healthy = make() if model is None else of_model(make(), model)
    one, other = taken(healthy), taken(every_port(healthy, **fell))
    assert isinstance(one.class_hash, str)
    assert other.topology_hash == one.topology_hash
    assert (other.class_hash, other.kin_hash, other.nic_order) == (one.class_hash, one.kin_hash, one.nic_order)
    assert other.network_device_set == one.network_device_set
    assert other.made_from["nics"] != one.made_from["nics"]


def test_a_rate_is_what_the_model_can_do_at_most() -> None:
    for model, most in (("MT4129", 400.0), ("0x15b3:0x1021", 400.0), ("MT4131", 800.0), ("MT4119", 100.0)):
        (kind,) = taken(of_model(pcie_box(), model)).network_device_set
        assert kind.rate_gbps == most
    for model in ("MT9999", "MT", "0x15b3:zz", "0x1af4:0x1041", "bnxt_re"):
        (kind,) = taken(of_model(pcie_box(), model)).network_device_set
        assert kind.rate_gbps is None


def test_the_profile_stands_beside_the_class() -> None:
    one, other = fingerprint_of(hgx()), fingerprint_of(hgx(), profile_key="tp8-decode@0123456789ab")
    assert (one.nccl_test_profile, other.nccl_test_profile) == (NONE, "tp8-decode@0123456789ab")
    assert one.class_hash == other.class_hash


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_listed_in_another_order_is_of_the_same_kin_but_for_the_order_of_its_nics(seed: int) -> None:
    path = relabelled(hgx(), seed)
    path = replace(path, gpus=tuple(sorted(path.gpus, key=lambda one: one.index)))
    one, other = taken(hgx()), taken(path)
    assert other.topology_hash == one.topology_hash
    assert (other.kin_hash == one.kin_hash) is (other.nic_order == one.nic_order)


@pytest.mark.parametrize("name", list(MUTATIONS))
def test_a_fingerprint_is_always_made(name: str) -> None:
    for make in (h200_vm, hgx, pcie_box):
        try:
            changed = MUTATIONS[name](make())
        except (IndexError, StopIteration):
            continue  # the machine has no such part
        assert isinstance(taken(changed), Fingerprint)
