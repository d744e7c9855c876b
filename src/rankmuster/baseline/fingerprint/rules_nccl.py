"""What NCCL_* values do; of a value that no table knows is said that it may change NCCL's choices."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.baseline.fingerprint.effects import BASELINE, DUMPS, Difference, Rule, Weight

_GUIDE = "NCCL user guide, Environment Variables"

EFFECTS: Mapping[str, tuple[Weight, str]] = {
    "ALGO": (Weight.PATH, "pins the algorithm: NCCL no longer takes the best one for each size"),
    "PROTO": (
        Weight.SLOWER,
        "pins the protocol: LL halves the bandwidth of large messages at least, Simple costs latency in small ones",
    ),
    "NVLS_ENABLE": (
        Weight.SLOWER,
        "NVLink SHARP on or off: with it off, large all-reduces take rings or trees, slower",
    ),
    "P2P_DISABLE": (Weight.PATH, "no direct access between GPUs: everything goes through host memory (SHM) or sockets"),
    "P2P_LEVEL": (Weight.PATH, "another distance up to which GPUs reach each other directly, SHM beyond it"),
    "P2P_DIRECT_DISABLE": (Weight.PATH, "no direct pointers between GPUs of one process"),
    "IGNORE_DISABLED_P2P": (Weight.PATH, "NCCL goes on where the driver says that P2P is disabled"),
    "SHM_DISABLE": (Weight.PATH, "no shared memory between processes: ranks without P2P talk over the network"),
    "CUMEM_ENABLE": (
        Weight.PATH,
        "memory is shared by cuMem handles or by CUDA IPC: NVLS and NVLink across nodes need cuMem",
    ),
    "CUMEM_HOST_ENABLE": (Weight.PATH, "host buffers come from cuMem or from /dev/shm"),
    "MNNVL_ENABLE": (Weight.PATH, "NVLink across nodes is used or not"),
    "COLLNET_ENABLE": (Weight.PATH, "reductions in the switches (SHARP) are used or not"),
    "IB_DISABLE": (Weight.PATH, "no InfiniBand or RoCE: NCCL takes TCP sockets, far slower"),
    "IB_HCA": (Weight.PATH, "other NICs are allowed: one that is left out is a rail less, none left means TCP sockets"),
    "IB_GID_INDEX": (
        Weight.FAILS,
        "another GID is used for RoCE: a wrong one times out, or leaves the lossless network",
    ),
    "IB_TC": (Weight.SLOWER, "another traffic class: it decides the lossless queue"),
    "IB_SL": (Weight.SLOWER, "another service level: it decides the queue"),
    "IB_TIMEOUT": (Weight.NODE, "another time before a packet is sent again: how long a lost path is waited for"),
    "IB_RETRY_CNT": (Weight.NODE, "another number of attempts before a path is called lost"),
    "IB_QPS_PER_CONNECTION": (
        Weight.SLOWER,
        "another number of queue pairs: how traffic spreads over the fabric's paths",
    ),
    "IB_SPLIT_DATA_ON_QPS": (Weight.SLOWER, "messages are split over the queue pairs, or not"),
    "IB_ADAPTIVE_ROUTING": (Weight.SLOWER, "adaptive routing is asked for, or not"),
    "IB_MERGE_NICS": (Weight.PATH, "ports are merged into one virtual NIC, or not"),
    "IB_PCI_RELAXED_ORDERING": (Weight.SLOWER, "relaxed ordering: without it NICs in VMs are far slower"),
    "NET": (Weight.PATH, "another network is taken"),
    "NET_PLUGIN": (Weight.PATH, "another network plugin, or none: its transport replaces NET/IB"),
    "NET_GDR_LEVEL": (
        Weight.PATH,
        "another distance up to which a NIC reads GPU memory; beyond it host memory is between",
    ),
    "NET_GDR_READ": (Weight.PATH, "sending straight from GPU memory is used or not"),
    "NET_GDR_C2C": (Weight.PATH, "GPUDirect over C2C (Grace) is used or not"),
    "DMABUF_ENABLE": (Weight.PATH, "DMA-BUF is used or not; without nvidia_peermem its absence ends GPUDirect"),
    "SOCKET_IFNAME": (Weight.FAILS, "another interface: communicators hang at start where peers cannot reach it"),
    "SOCKET_FAMILY": (Weight.FAILS, "another address family: communicators fail where peers have none of it"),
    "SOCKET_NTHREADS": (Weight.SLOWER, "another number of threads for sockets"),
    "NSOCKS_PERTHREAD": (Weight.SLOWER, "another number of sockets"),
    "CROSS_NIC": (Weight.PATH, "rings may use another NIC on another node, or must keep to their rail"),
    "PXN_DISABLE": (
        Weight.PATH,
        "sending through a NIC of another GPU is used or not: traffic keeps to its rail or crosses",
    ),
    "P2P_PXN_LEVEL": (Weight.PATH, "PXN is used for send and receive, or not"),
    "MIN_NCHANNELS": (Weight.SLOWER, "another least number of channels: more of them take more SMs"),
    "MAX_NCHANNELS": (Weight.SLOWER, "another most of channels: two of them carry a seventh of what NVLink could"),
    "MIN_CTAS": (Weight.SLOWER, "another least number of channels: more of them take more SMs"),
    "MAX_CTAS": (Weight.SLOWER, "another most of channels: few of them carry a part of what NVLink could"),
    "NCHANNELS_PER_NET_PEER": (Weight.SLOWER, "another number of channels for send and receive over the network"),
    "BUFFSIZE": (Weight.SLOWER, "another buffer size: how much is in flight in each channel"),
    "NTHREADS": (Weight.SLOWER, "another number of threads in each channel"),
    "TOPO_FILE": (
        Weight.PATH,
        "NCCL reads its topology from a file: it can hide what is broken, or be of another machine",
    ),
    "GRAPH_FILE": (Weight.PATH, "NCCL reads its graphs from a file and searches for none"),
    "TUNER_PLUGIN": (Weight.PATH, "a plugin chooses algorithms and protocols"),
    "TUNER_CONFIG_FILE": (Weight.PATH, "a file chooses algorithms and protocols"),
    "PROFILER_PLUGIN": (Weight.SLOWER, "a profiler looks on, at some cost"),
    "IGNORE_CPU_AFFINITY": (Weight.SLOWER, "threads are bound near the GPU, or left where the launcher put them"),
    "LAUNCH_MODE": (Weight.SLOWER, "kernels are launched in another way"),
    "GRAPH_REGISTER": (Weight.SLOWER, "buffers of CUDA graphs are registered (zero copy), or not"),
    "LOCAL_REGISTER": (Weight.SLOWER, "buffers that the user registers are used without copies, or not"),
    "GRAPH_MIXING_SUPPORT": (Weight.SLOWER, "graphs beside plain calls cost an event each, or are not allowed"),
    "RUNTIME_CONNECT": (Weight.NODE, "connections are made at the first use, or at the start"),
    "WIN_ENABLE": (Weight.SLOWER, "symmetric memory windows are used, or not"),
}
"""Name without NCCL_ -> what a change of it does. Of all: NCCL's user guide; channels and LL as measured on four H200s
(nccl-tests 2.19.6, 256 MiB: 338 GB/s healthy, 147 with LL, 50 with two channels, 24 with P2P off)."""


def _effect(difference: Difference) -> str:
    name = difference.path.removeprefix("settings/")
    known = EFFECTS.get(name.removeprefix("NCCL_"))
    words = known[1] if known else "NCCL reads it, and it may change what it chooses"
    if difference.before is None:
        return f"{name} was set: {words}"
    return f"{name} was unset, NCCL chooses for itself again: {words}" if difference.lost else f"{name}: {words}"


RULES = (
    *(
        Rule(f"settings/NCCL_{name}", weight, _effect, f"{_GUIDE}: NCCL_{name}", (BASELINE, DUMPS))
        for name, (weight, _) in EFFECTS.items()
    ),
    Rule("settings/NCCL_*", Weight.SLOWER, _effect, _GUIDE, (BASELINE, DUMPS)),
    Rule(
        "settings/*", Weight.CLASS, "it is set otherwise", "docs/fingerprint.md: the settings of a class", (BASELINE,)
    ),
    Rule("nccl_settings/*", Weight.NOTE, "it logs, asks or names files: NCCL chooses as before", _GUIDE),
)
"""First that fits."""
