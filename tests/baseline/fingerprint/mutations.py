"""Things that happen to a node, by name: what each does to the eight-GPU machine of `build_path`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from baseline.fingerprint.build_path import without_sys
from rankmuster.model.node_path import GpuPath, Link, Matrix, NicPath, NodePath, NvLink
from rankmuster.model.unknown import Unknown


def gpu(path: NodePath, index: int, **changed: object) -> NodePath:
    return replace(path, gpus=tuple(replace(one, **changed) if one.index == index else one for one in path.gpus))


def nic(path: NodePath, name: str, **changed: object) -> NodePath:
    return replace(path, nics=tuple(replace(one, **changed) if one.name == name else one for one in path.nics))


def port(path: NodePath, name: str, **changed: object) -> NodePath:
    found: NicPath = next(one for one in path.nics if one.name == name)
    return nic(path, name, ports=tuple(replace(one, **changed) for one in found.ports))


def container(path: NodePath, **changed: object) -> NodePath:
    return replace(path, container=replace(path.container, **changed))


def software(path: NodePath, **changed: object) -> NodePath:
    return replace(path, software=replace(path.software, **changed))


def setting(path: NodePath, **values: str) -> NodePath:
    return replace(path, nccl_settings={**path.nccl_settings, **values})


def three_down(one: GpuPath) -> tuple[NvLink, ...]:
    said = Unknown("an inactive link does not say")
    return tuple(replace(x, state="inactive", remote=said, speed_gbps=said) if x.link > 14 else x for x in one.links)


def not_reached(path: NodePath, word: str) -> NodePath:
    cells = {**path.matrices["r"].cells, ("GPU0", "GPU3"): word, ("GPU3", "GPU0"): word}
    return replace(path, matrices={**path.matrices, "r": Matrix("r", cells)})


def another(path: NodePath) -> NodePath:
    gpus = tuple(replace(one, uuid=f"GPU-other-{one.index}") for one in path.gpus)
    return replace(
        path, host="hgx-2", gpus=gpus, nics=tuple(replace(one, guid=f"other-{one.name}") for one in path.nics)
    )


SWITCH = "0xc030"

MUTATIONS: dict[str, Callable[[NodePath], NodePath]] = {
    "nothing": lambda p: p,
    "no sys": without_sys,
    "sys incomplete": lambda p: container(p, sys_complete=False),
    "links lost": lambda p: gpu(p, 3, links=three_down(p.gpus[3])),
    "half width": lambda p: gpu(p, 3, pcie=Link(5, 8, 5, 16)),
    "idle": lambda p: gpu(p, 3, pcie=Link(1, 16, 5, 16)),
    "acs": lambda p: replace(p, pci=tuple(replace(n, acs_redirects=True) if n.device == SWITCH else n for n in p.pci)),
    "acs unknown": lambda p: replace(p, pci=tuple(replace(n, acs_redirects=Unknown("needs root")) for n in p.pci)),
    "iommu": lambda p: container(p, iommu="translated"),
    "peermem": lambda p: container(p, gpudirect="none"),
    "p2p": lambda p: not_reached(p, "NS"),
    "shm": lambda p: container(p, shm_bytes=64 << 20),
    "shm a little less": lambda p: container(p, shm_bytes=(1 << 40) - 4096),
    "memlock": lambda p: container(p, memlock_bytes=65536.0),
    "uverbs": lambda p: container(p, devices=()),
    "nic order": lambda p: replace(p, nics=(p.nics[7], *p.nics[1:7], p.nics[0])),
    "nic lost": lambda p: replace(p, nics=p.nics[:7]),
    "nic swapped": lambda p: nic(p, "mlx5_4", guid="new"),
    "rate": lambda p: port(p, "mlx5_7", rate_gbps=200.0),
    "port down": lambda p: port(p, "mlx5_7", state="DOWN"),
    "firmware": lambda p: nic(p, "mlx5_7", firmware="28.38.1000"),
    "driver": lambda p: replace(p, driver="580.65.06"),
    "driver unknown": lambda p: replace(p, driver=Unknown("NVML does not answer")),
    "nccl": lambda p: software(p, nccl="2.29.2"),
    "cuda": lambda p: software(p, cuda_runtime="13.1"),
    "torch": lambda p: software(p, pytorch="2.12.0"),
    "image": lambda p: software(p, image_digest="sha256:" + "cd" * 32),
    "image unknown": lambda p: software(p, image_digest=Unknown("in a container whose digest no variable names")),
    "engine": lambda p: software(p, engine_version="0.16.0"),
    "gpu swapped": lambda p: gpu(p, 2, uuid="GPU-new"),
    "gpu lost": lambda p: replace(p, gpus=p.gpus[:7]),
    "vbios": lambda p: gpu(p, 2, vbios="96.00.B0.00.01"),
    "mig": lambda p: gpu(p, 2, mig="enabled"),
    "ecc": lambda p: gpu(p, 2, ecc="disabled"),
    "cpu": lambda p: replace(p, cpu=replace(p.cpu, model="207")),
    "proto": lambda p: setting(p, NCCL_PROTO="LL"),
    "algo": lambda p: setting(p, NCCL_ALGO="Ring"),
    "nvls": lambda p: setting(p, NCCL_NVLS_ENABLE="0"),
    "p2p disabled": lambda p: setting(p, NCCL_P2P_DISABLE="1"),
    "hca": lambda p: setting(p, NCCL_IB_HCA="mlx5_0"),
    "unheard of": lambda p: setting(p, NCCL_SOMETHING_NEW="1"),
    "logging": lambda p: setting(p, NCCL_DEBUG="INFO", NCCL_DEBUG_SUBSYS="ALL"),
    "another machine": another,
}
