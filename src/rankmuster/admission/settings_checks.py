"""The environment: what of the container, the kernel and the variables changes NCCL's choices, and how.

What is set for the whole class is the class's own way of running, and its history shows what that costs: a pinned
NCCL_* value alone refuses nobody. Where a node is slow, `explain` says which of them differ from its class.
"""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

MIB = 1 << 20
GIB = 1 << 30

SHM_DOCKER = 64 * MIB
"""Docker's default size of /dev/shm, with which NCCL fails as soon as a few ranks share it (`No space left on device`
for /dev/shm/nccl-*)."""

SHM_ENOUGH = GIB
"""Below this NCCL's buffers for a few communicators of eight ranks can fill it (some 10 MB a rank and channel over
shared memory), beside torch's own use of it."""

MEMLOCK_ENOUGH = GIB
"""RDMA registers each rank's buffers: tens to hundreds of MB a rank; defaults are 64 KiB or 8 MiB. Unlimited is what
every vendor asks for."""

EFFECTS: Mapping[str, str] = {
    "NCCL_P2P_DISABLE": "GPUs exchange data through host memory (SHM) instead of NVLink or PCIe",
    "NCCL_P2P_LEVEL": "pairs of GPUs farther apart than this go through host memory",
    "NCCL_SHM_DISABLE": "ranks of one node that cannot use peer-to-peer go over the network",
    "NCCL_IB_DISABLE": "nodes exchange data over TCP sockets instead of RDMA",
    "NCCL_NET": "the network is forced",
    "NCCL_NET_GDR_LEVEL": "NICs farther from the GPU than this bounce data through host memory",
    "NCCL_NET_GDR_READ": "whether NICs read GPU memory directly is forced",
    "NCCL_PROTO": "the protocol is forced: LL halves the bandwidth of large sizes, Simple slows small ones",
    "NCCL_ALGO": "the algorithm is forced for all sizes",
    "NCCL_MAX_NCHANNELS": "at most so many channels: few of them cannot fill the links",
    "NCCL_MIN_NCHANNELS": "at least so many channels",
    "NCCL_MAX_CTAS": "at most so many channels: few of them cannot fill the links",
    "NCCL_MIN_CTAS": "at least so many channels",
    "NCCL_NCHANNELS_PER_NET_PEER": "channels per NIC are forced",
    "NCCL_BUFFSIZE": "the size of a channel's buffers is forced",
    "NCCL_NTHREADS": "threads per block are forced",
    "NCCL_NVLS_ENABLE": "NVLink SHARP is forced on or off",
    "NCCL_CROSS_NIC": "whether rings may change rails is forced",
    "NCCL_IB_HCA": "which NICs NCCL uses is forced",
    "NCCL_IB_GID_INDEX": "the address (GID) by its place in the table: the place moves when addresses do",
    "NCCL_IGNORE_DISABLED_P2P": "disabled peer-to-peer between NVLink GPUs is passed over in silence",
    "NCCL_TOPO_FILE": "the topology comes from a file, which can hide broken hardware",
    "NCCL_GRAPH_FILE": "the rings come from a file",
    "NCCL_CUMEM_ENABLE": "how memory is shared between processes is forced",
}
"""What a variable does when it is set (NCCL's environment documentation, and its source at 2.28)."""

HIDING = frozenset({"NCCL_IGNORE_DISABLED_P2P", "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE"})
_OFF = frozenset({"", "0", "false"})


def environment_checks(path: NodePath, settings: Mapping[str, str | Unknown]) -> list[Check]:
    """`settings`: the fingerprint's, NCCL_* values among them."""
    rdma = not isinstance(path.nics, Unknown) and any(nic.rdma for nic in path.nics)
    return [
        _sys(path, rdma),
        _shm(path),
        *([_memlock(path), _verbs(path), _gpudirect(path)] if rdma else []),
        *_pins(settings),
        *_iommu(path),
        *_acs(path),
        *_mig(path),
    ]


def _check(name: str, state: CheckState, statement: str, advice: str = "", *, required: bool = False) -> Check:
    return Check(name, CheckGroup.ENVIRONMENT, state, "the node", statement, advice, required=required)


def _sys(path: NodePath, rdma: bool) -> Check:
    whole = path.container.sys_complete
    if isinstance(whole, Unknown):
        return _check("sys", CheckState.UNKNOWN, f"whether /sys is whole could not be told ({whole.reason})")
    if whole:
        return _check("sys", CheckState.PASS, "every GPU and NIC is in /sys")
    words = "GPUs or NICs are missing from /sys: NCCL cannot see which NIC is near which GPU"
    advice = "mount the host's /sys into the container, or give NCCL the platform's NCCL_TOPO_FILE"
    return _check("sys", CheckState.FAIL if rdma else CheckState.WARN, words, advice)


def _shm(path: NodePath) -> Check:
    size = path.container.shm_bytes
    if isinstance(size, Unknown):
        return _check("shm", CheckState.UNKNOWN, f"the size of /dev/shm could not be read ({size.reason})")
    advice = "docker run --shm-size=16g or --ipc=host; in Kubernetes an emptyDir of medium Memory at /dev/shm"
    if size <= SHM_DOCKER:
        words = f"shared memory has {size / MIB:.0f} MiB (docker's default): NCCL cannot extend its segments"
        return _check("shm", CheckState.FAIL, words, advice)
    if size < SHM_ENOUGH:
        return _check(
            "shm", CheckState.WARN, f"shared memory has {size / MIB:.0f} MiB, little for several ranks", advice
        )
    return _check("shm", CheckState.PASS, f"shared memory has {size / GIB:.0f} GiB")


def _memlock(path: NodePath) -> Check:
    size = path.container.memlock_bytes
    if isinstance(size, Unknown):
        return _check("memlock", CheckState.UNKNOWN, f"the limit of locked memory could not be read ({size.reason})")
    if size >= MEMLOCK_ENOUGH:
        words = "locked memory is not limited" if size == float("inf") else f"{size / GIB:.0f} GiB may be locked"
        return _check("memlock", CheckState.PASS, words)
    words = f"only {size / MIB:.3g} MiB may be locked: registering RDMA buffers fails (Cannot allocate memory)"
    return _check("memlock", CheckState.FAIL, words, "ulimit -l unlimited; docker --ulimit memlock=-1; LimitMEMLOCK=")


def _verbs(path: NodePath) -> Check:
    devices = path.container.devices
    if isinstance(devices, Unknown):
        return _check("uverbs", CheckState.UNKNOWN, f"the device files could not be listed ({devices.reason})")
    if "uverbs" in devices:
        return _check("uverbs", CheckState.PASS, "RDMA devices can be opened (/dev/infiniband/uverbs*)")
    words = "no /dev/infiniband/uverbs* here though /sys shows NICs: NCCL finds no RDMA device and takes sockets"
    return _check("uverbs", CheckState.FAIL, words, "pass the devices in (an RDMA device plugin, --device)")


def _gpudirect(path: NodePath) -> Check:
    way = path.container.gpudirect
    if isinstance(way, Unknown):
        return _check("gpudirect", CheckState.UNKNOWN, f"GPUDirect RDMA could not be told ({way.reason})")
    if way != "none":
        return _check("gpudirect", CheckState.PASS, f"GPUDirect RDMA by {way}")
    words = "no GPUDirect RDMA: data between nodes bounces through host memory"
    return _check("gpudirect", CheckState.FAIL, words, "load nvidia_peermem, or a driver and kernel with DMA-BUF")


def _pins(settings: Mapping[str, str | Unknown]) -> list[Check]:
    pinned = {name: value for name, value in settings.items() if name.startswith("NCCL_")}
    told = {name: str(value) for name, value in pinned.items() if not isinstance(value, Unknown)}
    hiding = {name: value for name, value in told.items() if name in HIDING and value.lower() not in _OFF}
    checks = [
        _check("nccl-settings", CheckState.WARN, f"{name}={value}: {EFFECTS[name]}", "unset it unless that is meant")
        for name, value in sorted(hiding.items())
    ]
    unknown = [f"{name} ({value.reason})" for name, value in pinned.items() if isinstance(value, Unknown)]
    if hiding.keys() != told.keys() or (not told and not unknown):
        words = ", ".join(f"{name}={value}" for name, value in sorted(told.items()) if name not in hiding)
        words = f"set, and part of the class: {words}" if words else "no NCCL_* value is pinned"
        checks.insert(0, _check("nccl-settings", CheckState.PASS, words))
    if unknown:
        checks.append(_check("nccl-settings", CheckState.UNKNOWN, f"could not be read: {', '.join(unknown)}"))
    return checks


def _iommu(path: NodePath) -> list[Check]:
    mode = path.container.iommu
    if isinstance(mode, Unknown):
        return [_check("iommu", CheckState.UNKNOWN, f"the IOMMU's mode could not be read ({mode.reason})")]
    if mode != "translated":
        return [_check("iommu", CheckState.PASS, f"the IOMMU is {'off' if mode == 'off' else 'passing through'}")]
    words = "the IOMMU translates addresses: peer-to-peer and GPUDirect are slow or do not work over PCIe"
    return [_check("iommu", CheckState.WARN, words, "boot with iommu=pt (bare metal; a VM needs ATS)")]


def _acs(path: NodePath) -> list[Check]:
    if isinstance(path.pci, Unknown):
        return [_check("acs", CheckState.UNKNOWN, f"PCIe bridges could not be read ({path.pci.reason})")]
    redirecting = [node.address for node in path.pci if node.acs_redirects is True]
    unknown = [node for node in path.pci if isinstance(node.acs_redirects, Unknown)]
    if redirecting:
        words = (
            f"ACS redirects peer-to-peer traffic up to the root at {len(redirecting)} port(s) ({redirecting[0]}): "
            "slow over PCIe, and on some machines wrong data"
        )
        return [_check("acs", CheckState.WARN, words, "clear it on the bridges above GPUs and NICs (setpci ECAP_ACS)")]
    if unknown:
        words = f"whether ACS redirects could not be read at {len(unknown)} port(s): it needs CAP_SYS_ADMIN"
        return [_check("acs", CheckState.UNKNOWN, words)]
    return [_check("acs", CheckState.PASS, "no bridge redirects peer-to-peer traffic")] if path.pci else []


def _mig(path: NodePath) -> list[Check]:
    gpus = () if isinstance(path.gpus, Unknown) else path.gpus
    cut = [gpu.index for gpu in gpus if isinstance(gpu.mig, str) and gpu.mig.lower() == "enabled"]
    if not cut:
        return []
    words = f"MIG is on (GPU {', '.join(map(str, cut[:8]))}): slices have no peer-to-peer and no NVLink"
    return [_check("mig", CheckState.WARN, words, "nvidia-smi -mig 0 where whole GPUs are meant")]
