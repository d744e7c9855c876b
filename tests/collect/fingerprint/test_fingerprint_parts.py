"""Software, settings, containers and devices are told as they are, or said to be unknown with what to do."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from node_tree import NodeTree, put, switched_node

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint.container import device_kinds, read_container
from rankmuster.collect.fingerprint.installed import of_process, of_python, packages_in
from rankmuster.collect.fingerprint.iommu import read_gpudirect, read_iommu
from rankmuster.collect.fingerprint.nccl_settings import parse_conf, read_settings
from rankmuster.collect.fingerprint.nics import read_nics
from rankmuster.collect.fingerprint.rdma_index import by_index, parse
from rankmuster.collect.fingerprint.runtime import container_of, image_digest
from rankmuster.collect.fingerprint.software import read_software
from rankmuster.collect.fingerprint.whose import whose
from rankmuster.collect.machine import Machine
from rankmuster.model.fingerprint import NONE
from rankmuster.model.unknown import Unknown

DIGEST = "sha256:" + "ab" * 32


def soon() -> Deadline:
    return Deadline.after(5.0)


def install(site: Path, *packages: str) -> Path:
    for package in packages:
        (site / f"{package}.dist-info").mkdir(parents=True)
    return site


def interpreter(folder: Path, site: Path) -> Path:
    """A Python whose packages lie in `site`: what it is asked for is where it looks."""
    program = folder / "python"
    put(program, f'#!/bin/sh\necho \'["{site}", "/nowhere"]\'\n')
    program.chmod(0o755)
    return program


# Software


def test_versions_are_told_by_what_lies_in_the_folder_of_packages(tmp_path):
    site = install(
        tmp_path / "site",
        *("torch-2.9.0+cu128", "nvidia_nccl_cu12-2.28.9", "nvidia_cuda_runtime_cu12-12.8.90", "vllm-0.11.2"),
    )
    found = read_software(Machine(), soon(), python=interpreter(tmp_path, site), pid=None, root=tmp_path)
    assert (found.pytorch, found.nccl, found.cuda_runtime) == ("2.9.0+cu128", "2.28.9", "12.8.90")
    assert (found.engine, found.engine_version) == ("vllm", "0.11.2")


def test_what_is_not_installed_is_known_to_be_absent(tmp_path):
    found = read_software(Machine(), soon(), python=interpreter(tmp_path, tmp_path), pid=None, root=tmp_path)
    assert (found.pytorch, found.nccl, found.cuda_runtime, found.engine) == (NONE,) * 4


def test_nccl_that_is_linked_into_torch_is_not_guessed_at(tmp_path):
    site = install(tmp_path / "site", "torch-2.3.1+cu121")
    found = read_software(Machine(), soon(), python=interpreter(tmp_path, site), pid=None, root=tmp_path)
    assert isinstance(found.nccl, Unknown)
    assert "--pid" in found.nccl.reason
    assert found.cuda_runtime == "12.1"


def test_nccl_of_the_system_is_found_where_debian_puts_it(tmp_path):
    put(tmp_path / "usr/lib/x86_64-linux-gnu/libnccl.so.2.27.3", "")
    found = read_software(Machine(), soon(), python=interpreter(tmp_path, tmp_path), pid=None, root=tmp_path)
    assert found.nccl == "2.27.3"


def test_two_engines_in_one_image_are_told_apart_by_nobody(tmp_path):
    site = install(tmp_path / "site", "vllm-0.11.2", "sglang-0.5.6")
    found = read_software(Machine(), soon(), python=interpreter(tmp_path, site), pid=None, root=tmp_path)
    assert isinstance(found.engine, Unknown)
    assert "vllm 0.11.2" in found.engine.reason


@pytest.mark.parametrize("answer", ["exit 3", "echo hello", "echo '[1, 2'"])
def test_an_interpreter_that_does_not_answer_is_named(tmp_path, answer):
    program = tmp_path / "python"
    put(program, f"#!/bin/sh\n{answer}\n")
    program.chmod(0o755)
    found = of_python(program, soon())
    assert isinstance(found, Unknown)
    assert str(program) in found.reason


def test_packages_of_this_interpreter_are_those_that_it_would_import():
    packages = of_python(Path(sys.executable), soon())
    assert packages["pytest"] == pytest.__version__


def test_a_running_process_tells_its_packages_and_its_nccl(tmp_path):
    """The library of a real process, mapped as an engine maps it, with the text that NCCL has in it."""
    site = install(tmp_path / "lib/site-packages", "nvidia_nccl_cu12-2.27.3", "torch-2.9.0", "sglang-0.5.6")
    library = site / "nvidia/nccl/lib/libnccl.so.2"
    put(library, b"\0" * 4096 + b"NCCL version 2.28.9+cuda12.9\0" + b"\0" * 4096)
    program = (
        f"import mmap, sys\nfile = open({str(library)!r}, 'rb')\n"
        "mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)\nprint(1, flush=True)\nsys.stdin.read()"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = read_software(
            *(Machine(), soon()), python=None, pid=process.pid, root=Path(f"/proc/{process.pid}/root")
        )
        process.communicate(timeout=10)
    assert found.nccl == "2.28.9"  # what runs, not what the package beside it says
    assert (found.pytorch, found.engine) == ("2.9.0", "sglang")


def test_a_process_that_is_not_there_is_unknown():
    found = of_process(Path("/proc"), 4194303, soon())
    assert isinstance(found, Unknown)
    seen = whose(Machine(), 4194303, {}, soon())
    assert isinstance(seen.environ, Unknown)
    assert isinstance(read_settings(seen.root, seen.etc, seen.environ, None), Unknown)


def test_the_first_folder_of_the_path_wins(tmp_path):
    first, second = install(tmp_path / "a", "torch-2.9.0"), install(tmp_path / "b", "torch-2.1.0")
    assert packages_in([first, second, tmp_path / "nowhere"]) == {"torch": "2.9.0"}


# Settings


def test_the_environment_wins_over_the_users_file_and_that_over_the_systems(tmp_path):
    put(tmp_path / "home/u/.nccl.conf", "# mine\nNCCL_PROTO=LL\nNCCL_ALGO=Tree\n")
    put(tmp_path / "etc/nccl.conf", "NCCL_ALGO=Ring\nNCCL_IB_HCA==mlx5_0,mlx5_1\nPATH=/bin\n")
    found = read_settings(tmp_path, tmp_path / "etc", {"NCCL_PROTO": "Simple", "HOME": "/home/u"}, "/home/u")
    assert found == {"NCCL_ALGO": "Tree", "NCCL_IB_HCA": "=mlx5_0,mlx5_1", "NCCL_PROTO": "Simple"}


def test_a_file_of_its_own_stands_in_for_the_users(tmp_path):
    put(tmp_path / "home/u/.nccl.conf", "NCCL_PROTO=LL\n")
    put(tmp_path / "srv/nccl", "NCCL_ALGO=Tree\n")
    found = read_settings(tmp_path, tmp_path / "etc", {"NCCL_CONF_FILE": "/srv/nccl"}, "/home/u")
    assert found == {"NCCL_ALGO": "Tree", "NCCL_CONF_FILE": "/srv/nccl"}


def test_values_that_may_be_secrets_are_not_kept(tmp_path):
    environ = {"NCCL_API_TOKEN": "hunter2-hunter2", "NCCL_X": "hf_" + "aB3dE5gH7j" * 4, "AWS_SECRET_ACCESS_KEY": "x"}
    found = read_settings(tmp_path, tmp_path, environ, None)
    assert found == {"NCCL_API_TOKEN": "***", "NCCL_X": "***"}


def test_lines_that_are_no_settings_are_passed_over():
    assert parse_conf("NCCL_A=1\nNCCL_A=2\n NCCL_B=1\n#NCCL_C=1\nNCCL_D\nLD_PRELOAD=x\n=\n") == {"NCCL_A": "1"}


# Containers


@pytest.mark.parametrize(
    ("environ", "cgroup", "mounts", "expected"),
    [
        ({}, "0::/", "27 1 254:0 / / rw - ext4 /dev/vda rw", NONE),
        ({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "0::/", "", "kubernetes"),
        ({}, "0::/kubepods.slice/pod1", "", "kubernetes"),
        ({}, "0::/", "9 1 0:5 /var/lib/kubelet/pods/u/etc-hosts /etc/hosts rw - ext4 /dev/v rw", "kubernetes"),
        ({}, "4:memory:/docker/0123456789abcdef", "", "docker"),
        ({"APPTAINER_CONTAINER": "/x.sif"}, "0::/", "", "apptainer"),
        ({}, "0::/", "9 1 0:5 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/x", "containerd"),
        ({"container": "lxc"}, "0::/", "", "lxc"),
    ],
)
def test_a_container_is_told_by_what_its_runtime_leaves(tmp_path, environ, cgroup, mounts, expected):
    node = NodeTree(tmp_path)
    put(node.proc / "self/cgroup", f"{cgroup}\n")
    put(node.proc / "self/mountinfo", f"{mounts}\n")
    assert container_of(node.proc, tmp_path, "self", environ) == expected


def test_a_disk_that_was_made_of_an_image_is_no_container(tmp_path):
    node = NodeTree(tmp_path)
    put(tmp_path / ".dockerenv", "")
    assert container_of(node.proc, tmp_path, "self", {}) == NONE
    put(node.proc / "self/mountinfo", "9 1 0:5 / / rw - overlay overlay rw\n")
    assert container_of(node.proc, tmp_path, "self", {}) == "docker"
    put(node.proc / "self/mountinfo", "27 1 254:0 / / rw - ext4 /dev/vda rw\n")
    (node.proc / "2/stat").unlink()
    assert container_of(node.proc, tmp_path, "self", {}) == "docker"


def test_a_namespace_without_any_sign_is_not_called_bare_metal(tmp_path):
    node = NodeTree(tmp_path)
    (node.proc / "2/stat").unlink()
    assert isinstance(container_of(node.proc, tmp_path, "self", {}), Unknown)


def test_the_image_is_what_was_given_then_what_a_variable_says():
    assert image_digest("docker", f"registry/llm@{DIGEST}", {}) == DIGEST
    assert image_digest("docker", None, {"IMAGE": f"registry/llm@{DIGEST}"}) == DIGEST
    assert image_digest(NONE, None, {}) == NONE
    assert image_digest("docker", "none", {}) == NONE
    unknown = image_digest("docker", None, {"IMAGE": "registry/llm:latest"})
    assert isinstance(unknown, Unknown)
    assert "RANKMUSTER_IMAGE_DIGEST" in unknown.reason
    assert isinstance(image_digest(NONE, "sha256:12", {}), Unknown)


def test_limits_and_devices_are_those_of_the_process(tmp_path):
    node = switched_node(tmp_path, 2)
    put(node.proc / "self/cgroup", "0::/job\n")
    put(node.sys / "fs/cgroup/job/memory.max", "68719476736\n")
    put(node.sys / "fs/cgroup/job/pids.max", "max\n")
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "sda"):
        put(node.dev / name, "")
    (node.dev / "nvidia-caps-imex-channels").mkdir()
    found = read_container(node.machine, whose(node.machine, None, {}, soon()), NONE, (), (), ())
    assert found.memlock_bytes == math.inf
    assert found.cgroup == "version 2, memory 68719476736, processes none"
    assert found.devices == ("nvidia", "nvidia-uvm", "nvidiactl", "uverbs")
    assert found.shm_bytes == os.statvfs(tmp_path).f_frsize * os.statvfs(tmp_path).f_blocks
    put(node.dev / "nvidia-caps-imex-channels/channel0", "")
    assert "nvidia-caps-imex-channels" in device_kinds(node.dev)


def test_the_iommu_counts_where_gpus_and_nics_are(tmp_path):
    node = switched_node(tmp_path, 1)
    (node.sys / "class/iommu/dmar0").mkdir()
    for number, kind in enumerate(("DMA-FQ", "identity")):
        put(node.sys / f"kernel/iommu_groups/{number}/type", f"{kind}\n")
    gpu = node.sys / "bus/pci/devices/0000:9a:00.0"
    (gpu / "iommu_group").symlink_to(node.sys / "kernel/iommu_groups/1")
    assert read_iommu(node.sys, ["0000:9a:00.0"]) == "identity"
    assert read_iommu(node.sys, []) == "translated"


@pytest.mark.parametrize(
    ("opened", "kernel", "peermem", "expected"),
    [(True, "6.8.0", False, "dmabuf"), (True, "5.4.0", True, "peermem"), (False, "6.8.0", True, "peermem"),
     (False, "6.8.0", False, "none")],
)  # fmt: skip
def test_how_gpu_memory_reaches_a_nic(tmp_path, opened, kernel, peermem, expected):
    node = NodeTree(tmp_path)
    node.driver(opened=opened)
    put(node.proc / "sys/kernel/osrelease", f"{kernel}-generic\n")
    if peermem:
        (node.sys / "module/nvidia_peermem").mkdir()
    assert read_gpudirect(node.machine, gpus=True) == expected


# NICs


def test_a_bond_over_rdma_ports_is_one_device_and_a_plain_one_stands_for_its_parts(tmp_path):
    node = NodeTree(tmp_path)
    cards = [node.pci(f"pci0000:40/0000:41:00.{at}", "0x020000", "0x15b3", "0x1021") for at in range(2)]
    node.hca("mlx5_bond_0", cards[0], 0, layer="Ethernet", netdev="eth0")
    node.interface("eth1", cards[1], index=4)
    node.interface("bond0", None, index=5, slaves="eth0 eth1")
    other = [node.pci(f"pci0000:50/0000:51:00.{at}", "0x020000", "0x8086", "0x1592") for at in range(2)]
    node.interface("ens1f0", other[0], index=6)
    node.interface("ens1f1", other[1], index=7)
    node.interface("bond1", None, index=8, slaves="ens1f0 ens1f1", speed="200000")
    node.interface("veth12", None, index=9)
    nics = read_nics(node.sys, soon())
    assert [(nic.name, nic.rdma) for nic in nics] == [("mlx5_bond_0", True), ("bond1", False)]
    assert nics[1].address is None
    assert nics[1].ports[0].rate_gbps == 200.0


def test_devices_come_by_their_index_whatever_their_names(tmp_path):
    node = switched_node(tmp_path, 3)
    assert by_index(node.sys) == ["mlx5_3", "mlx5_2", "mlx5_1", "mlx5_0"]


def test_an_answer_over_netlink_is_read_and_damage_is_not_believed():
    name = b"mlx5_0\0\0"
    body = b"\x08\0\x01\0\x03\0\0\0" + bytes([4 + len(name), 0, 2, 0]) + name
    message = (16 + len(body)).to_bytes(4, sys.byteorder) + b"\x01\x14\0\0\0\0\0\0\0\0\0\0" + body
    found: dict[str, int] = {}
    assert parse(message, found) is False
    assert found == {"mlx5_0": 3}
    for cut in range(len(message)):
        parse(message[:cut], {})
    assert parse(b"\xff" * 64, {}) is True
