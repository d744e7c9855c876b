"""A fingerprint from what was read of a node: the parts that name it, and the hashes over them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from rankmuster.baseline.fingerprint.made_from import made_from, plain
from rankmuster.baseline.fingerprint.nics import device_set
from rankmuster.baseline.fingerprint.settings import settings_of
from rankmuster.baseline.fingerprint.topology import topology_of
from rankmuster.baseline.fingerprint.unknowns import Unknowns
from rankmuster.model.digest import digest
from rankmuster.model.fingerprint import NONE, Fingerprint
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

HOW_TO_GIVE = {
    "imageDigest": "give --image-digest",
    "engine": "give --engine NAME=VERSION",
    "engineVersion": "give --engine NAME=VERSION",
    "ncclVersion": "take it on the node with --pid of the instance, or --python",
    "pytorchVersion": "take it on the node with --pid of the instance, or --python",
    "cudaVersion": "take it on the node with --pid of the instance, or --python",
}
"""How a fact that cannot be read is made known, by the name of its field in the document."""


def fingerprint_of(path: NodePath, *, profile_key: str | None = None) -> Fingerprint:
    """The fingerprint of a node. Never raises; an unknown part makes the hashes over it Unknown, and their reasons
    name it. `profile_key`: `Profile.key` of the benchmark that belongs to it, None for none.
    """
    topology = topology_of(path)
    software = path.software
    devices = device_set(path.nics)
    kin: dict[str, Any] = {
        "imageDigest": software.image_digest,
        "cudaVersion": software.cuda_runtime,
        "ncclVersion": software.nccl,
        "pytorchVersion": software.pytorch,
        "engine": software.engine,
        "engineVersion": software.engine_version,
        "gpuModel": _gpu_model(path),
        "gpuCount": Unknown(path.gpus.reason) if isinstance(path.gpus, Unknown) else len(path.gpus),
        "driver": path.driver,
        "topologyHash": topology.hash,
        "networkDeviceSet": devices,
        "nicOrder": topology.nic_order,
    }
    kin = {name: _asked(name, value) for name, value in kin.items()}
    settings = settings_of(path)
    kin_hash = hash_over(kin)
    return Fingerprint(
        host=path.host,
        taken_at=path.taken_at,
        image_digest=kin["imageDigest"],
        cuda_version=kin["cudaVersion"],
        nccl_version=kin["ncclVersion"],
        pytorch_version=kin["pytorchVersion"],
        engine=kin["engine"],
        engine_version=kin["engineVersion"],
        gpu_model=kin["gpuModel"],
        gpu_count=kin["gpuCount"],
        driver=kin["driver"],
        topology_hash=topology.hash,
        nccl_test_profile=NONE if profile_key is None else profile_key,
        network_device_set=devices,
        nic_order=topology.nic_order,
        settings=settings,
        kin_hash=kin_hash,
        class_hash=hash_over({**kin, **{f"setting {name}": value for name, value in settings.items()}}, kin_hash),
        node_hash=_node_hash(path),
        made_from=made_from(path, topology.source.value),
    )


def hash_over(parts: dict[str, Any], under: str | Unknown | None = None) -> str | Unknown:
    """The hash of the parts by name, Unknown where any of them is. `under`: a hash of some of them that stands for
    those in the result."""
    unknowns = Unknowns()
    for name, value in parts.items():
        if isinstance(value, Unknown):
            unknowns.add(name, value.reason)
    if unknowns:
        return unknowns.as_unknown()
    if isinstance(under, str):
        parts = {name: value for name, value in parts.items() if name.startswith("setting ")} | {"kin": under}
    return digest(plain(parts))


def _asked(name: str, value: Any) -> Any:
    how = HOW_TO_GIVE.get(name)
    if isinstance(value, Unknown) and how and "--" not in value.reason:
        return Unknown(f"{value.reason}; {how}")
    return value


def _gpu_model(path: NodePath) -> str | Unknown:
    """The model of all GPUs; of a mixed node each with its number."""
    if isinstance(path.gpus, Unknown):
        return Unknown(path.gpus.reason)
    unknowns = Unknowns()
    models = Counter(unknowns.known(f"GPU {gpu.index} model", gpu.model, "") for gpu in path.gpus)
    if unknowns:
        return unknowns.as_unknown()
    if len(models) < 2:
        return next(iter(models), NONE)
    return ", ".join(f"{count} x {model}" for model, count in sorted(models.items()))


def _node_hash(path: NodePath) -> str | Unknown:
    """Over the UUIDs and GUIDs, in no order: GPUs that swap slots are still this machine's."""
    unknowns = Unknowns()
    gpus = unknowns.known("GPUs", path.gpus, ())
    nics = unknowns.known("NICs", path.nics, ())
    uuids = sorted(unknowns.known(f"GPU {gpu.index} UUID", gpu.uuid, "") for gpu in gpus)
    guids = sorted(unknowns.known(f"GUID of NIC {nic.name}", nic.guid, "") for nic in nics if nic.rdma)
    if not unknowns and not uuids and not guids:
        unknowns.add("UUIDs and GUIDs", "the machine has neither a GPU nor an RDMA device, and nothing else names it")
    return unknowns.as_unknown() if unknowns else digest([uuids, guids])
