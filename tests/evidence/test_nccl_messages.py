"""The facts that INFO lines state, release by release."""

from __future__ import annotations

import pytest

from rankmuster.evidence.nccl_line import LineParser
from rankmuster.evidence.nccl_messages import Fact, observation
from rankmuster.model.nccllog import (
    InitPhase,
    LogOrigin,
    NcclCall,
    NcclInit,
    NcclInterface,
    NcclSetting,
    NcclTransport,
    NcclTuning,
    NcclVersionLine,
)

ORIGIN = LogOrigin("x.log", 1, "vm", 1, 1, 0, None, None)


def fact(message: str) -> Fact | None:
    (line,) = LineParser().parse(f"vm:1:1 [0] NCCL INFO {message}")
    return observation(line, ORIGIN)


@pytest.mark.parametrize(
    ("message", "phase", "comm_id", "call"),
    [
        (
            "ncclCommInitRankConfig comm 0x419184e0 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 60 "
            "commId 0x3c49d0d3d9e0276 - Init START",
            InitPhase.START,
            "03c49d0d3d9e0276",
            "ncclCommInitRankConfig",
        ),
        (
            "[Rank 2] ncclCommInitRank comm 0x1 rank 2 nranks 4 cudaDev 0 nvmlDev 0 busId 1b000 "
            "commId 0x53c49d0d3d9e0276 - Init START",
            InitPhase.START,
            "53c49d0d3d9e0276",
            "ncclCommInitRank",
        ),
        ("comm 0x1 rank 2 nranks 4 cudaDev 1 busId 1b000 - Init COMPLETE", InitPhase.COMPLETE, None, None),
        ("comm 0x1 rank 2 nranks 4 cudaDev 1 busId 1b000 - Destroy COMPLETE", InitPhase.DESTROY, None, None),
        ("comm 0x1 rank 2 nRanks 4 cudaDev 1 busId 1b000 - Abort START", InitPhase.ABORT, None, None),
    ],
)
def test_init_and_end_of_a_communicator(message: str, phase: InitPhase, comm_id: str | None, call: str | None) -> None:
    found = fact(message)
    assert isinstance(found, NcclInit)
    assert (found.phase, found.rank, found.nranks, found.comm_id, found.call) == (phase, 2, 4, comm_id, call)


@pytest.mark.parametrize("count", ["splitCount 1", "childCount 1"])
@pytest.mark.parametrize("dash", ["- Init START", " - Init START"])
def test_a_split_names_its_parent_and_colour(count: str, dash: str) -> None:
    found = fact(
        f"ncclCommSplit comm 0xa rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 parent 0xb {count} color -7 key 0{dash}"
    )
    assert isinstance(found, NcclInit)
    assert (found.phase, found.comm, found.parent, found.color, found.comm_id) == (
        InitPhase.START,
        "0xa",
        "0xb",
        -7,
        None,
    )


def test_a_call_line_gives_all_that_ranks_must_agree_on() -> None:
    found = fact(
        "AllReduce: opCount 1b5 sendbuff 0x7f000000 recvbuff (nil) count 768 datatype 7 op 0 root 0 "
        "comm 0x550000 [nranks=4] stream 0x55aa00"
    )
    assert found == NcclCall(ORIGIN, "AllReduce", 0x1B5, 768, 7, 0, 0, "0x550000", 4)


def test_a_call_line_that_was_cut_inside_its_communicator_is_no_call() -> None:
    assert fact("AllReduce: opCount 1 sendbuff 0x7 recvbuff 0x7 count 768 datatype 7 op 0 root 0 comm 0x5500") is None


@pytest.mark.parametrize(
    ("message", "algorithm", "protocol", "channels"),
    [
        ("AllReduce: 131072 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..7}", "RING", "LL", (0, 7)),
        ("131072 Bytes -> Algo 1 proto 2 time 3.14", "Ring", "Simple", None),
        (
            "AllReduce [Symmetric]: 131072 Bytes -> Kernel AllReduce_RSxLD nchannels 8 nthreads 512",
            "AllReduce_RSxLD",
            "Symmetric",
            (0, 7),
        ),
        ("AllGather [Copy Engine]: 131072 Bytes -> cudaMemcpyAsync", "cudaMemcpyAsync", "Copy Engine", None),
    ],
)
def test_the_choice_of_algorithm_in_every_wording(
    message: str, algorithm: str, protocol: str, channels: tuple[int, int] | None
) -> None:
    found = fact(message)
    assert isinstance(found, NcclTuning)
    assert (found.bytes, found.algorithm, found.protocol, found.channels) == (131072, algorithm, protocol, channels)


@pytest.mark.parametrize(
    ("message", "src", "dst", "direction", "via"),
    [
        ("Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", 0, 1, None, "P2P/CUMEM"),
        ("Channel 00 : 0[1b000] -> 1[1c000] via P2P/IPC/read", 0, 1, None, "P2P/IPC/read"),
        ("Channel 00 : 2[2] -> 3[3] via SHM/direct/direct", 2, 3, None, "SHM/direct/direct"),
        ("Channel 01/0 : 3[3] -> 0[0] [receive] via NET/IB/3(5)/GDRDMA", 3, 0, "receive", "NET/IB/3(5)/GDRDMA"),
        (
            "Channel 01/0 : 3[3] -> 0[0] [send] via NET/AWS Libfabric/0/GDRDMA",
            3,
            0,
            "send",
            "NET/AWS Libfabric/0/GDRDMA",
        ),
        ("Channel 01/0 : 3[3] -> 0[0] [send] via NET/IB/0 comm 0x7fe nRanks 08", 3, 0, "send", "NET/IB/0"),
        ("CollNet 00/0 : 4 [send] via COLLNET/SHARP/0/GDRDMA", 4, 4, "send", "COLLNET/SHARP/0/GDRDMA"),
    ],
)
def test_the_path_of_a_channel(message: str, src: int, dst: int, direction: str | None, via: str) -> None:
    found = fact(message)
    assert isinstance(found, NcclTransport)
    assert (found.src, found.dst, found.direction, found.via) == (src, dst, direction, via)


def test_the_ring_order_of_old_releases_is_no_transport() -> None:
    assert fact("Channel 00/08 :    0   1   2   3") is None


@pytest.mark.parametrize(
    ("message", "name", "value"),
    [
        ("NCCL_P2P_LEVEL set by environment to LOC", "NCCL_P2P_LEVEL", "LOC"),
        ("NCCL_RAS_ENABLE set by environment to 1.", "NCCL_RAS_ENABLE", "1"),
        ("NCCL_SOCKET_IFNAME set to eth0", "NCCL_SOCKET_IFNAME", "eth0"),
        ("NCCL_TOPO_FILE set by environment to /opt/x/p5.48xl-topo.xml", "NCCL_TOPO_FILE", "/opt/x/p5.48xl-topo.xml"),
    ],
)
def test_settings_lose_only_the_full_stop_of_numbers(message: str, name: str, value: str) -> None:
    assert fact(message) == NcclSetting(ORIGIN, name, value)


@pytest.mark.parametrize(
    ("message", "role", "interfaces"),
    [
        ("Bootstrap : Using veth7f21c0a:172.18.0.2<0>", "bootstrap", (("veth7f21c0a", "172.18.0.2"),)),
        ("Bootstrap: Using eth0:fe80::1%eth0<0>", "bootstrap", (("eth0", "fe80::1%eth0"),)),
        (
            "Bootstrap : Using [0]ib0:10.1.1.1<0> [1]ib1:10.1.1.2<0>",
            "bootstrap",
            (("ib0", "10.1.1.1"), ("ib1", "10.1.1.2")),
        ),
        ("NET/Socket : Using [0]eth0:192.0.2.2<0>", "socket", (("eth0", "192.0.2.2"),)),
        (
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>",
            "ib",
            (("mlx5_0:1/IB", None), ("mlx5_1:1/RoCE", None)),
        ),
        ("Using network AWS Libfabric", "network", (("AWS Libfabric", None),)),
    ],
)
def test_interfaces_that_were_chosen(message: str, role: str, interfaces: tuple[tuple[str, str | None], ...]) -> None:
    assert fact(message) == NcclInterface(ORIGIN, role, interfaces)


def test_infiniband_without_a_device_uses_none() -> None:
    assert fact("NET/IB : Using [RO]; OOB eth0:192.0.2.2<0>") is None


@pytest.mark.parametrize(
    ("message", "version", "cuda"),
    [
        ("NCCL version 2.28.9+cuda13.0", "2.28.9", "13.0"),
        ("NCCL version 2.24.3+cudaCUDA_MAJOR.CUDA_MINOR", "2.24.3", None),
    ],
)
def test_the_version(message: str, version: str, cuda: str | None) -> None:
    assert fact(message) == NcclVersionLine(ORIGIN, version, cuda)
