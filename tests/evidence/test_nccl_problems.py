"""Which warnings are causes, which are after-effects, and which lines are no problem at all."""

from __future__ import annotations

import pytest

from rankmuster.evidence.nccl_line import LineParser
from rankmuster.evidence.nccl_problems import Classified, classify, decode_version
from rankmuster.model.nccllog import NcclProblemKind as Kind


def warn(message: str, file: str = "x.cc:1") -> Classified:
    (line,) = LineParser().parse(f"vm:1:2 [0] {file} NCCL WARN {message}")
    found = classify(line)
    assert found is not None
    return found


def info(message: str) -> Classified | None:
    (line,) = LineParser().parse(f"vm:1:2 [0] NCCL INFO {message}")
    return classify(line)


@pytest.mark.parametrize(
    ("code", "version"), [(2803, "2.8.3"), (2408, "2.4.8"), (21212, "2.12.12"), (22705, "2.27.5"), (23007, "2.30.7")]
)
def test_version_codes_of_both_schemes(code: int, version: str) -> None:
    assert decode_version(code) == version


def test_a_version_mismatch_names_both_versions() -> None:
    found = warn("Mismatched NCCL version detected : rank 1 version 22705 rank 0 version 22703", "init.cc:1010")
    assert (found.kind, found.primary) == (Kind.VERSION_MISMATCH, True)
    assert found.detail == (("rank 0", "2.27.3"), ("rank 1", "2.27.5"))


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            "NET/IB : Got completion with error 12, opcode 1, len 0, vendor err 129",
            {"status": "12", "opcode": "1", "len": "0", "vendor_err": "129"},
        ),
        (
            "NET/IB : Got completion from peer 10.0.0.2<41234> with error 12, opcode 0, len 0, vendor err 129 (Send)",
            {"status": "12", "vendor_err": "129", "direction": "Send"},
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<41234> with status=12 opcode=0 len=0 vendor err 129 (Recv) "
            "localGid fe80::1 remoteGids fe80::2 hca mlx5_3",
            {"status": "12", "local_gid": "fe80::1", "remote_gid": "fe80::2", "hca": "mlx5_3", "direction": "Recv"},
        ),
        (
            "NET/IB: Got completion from peer 10.0.0.2<41234> with status=IBV_WC_RETRY_EXC_ERR(12) "
            "opcode=IBV_WC_SEND(0) vendor_err=129 qp_num=77 Send localGid fe80::1 remoteGidsfe80::2 hca mlx5_3",
            {"status": "12", "opcode": "0", "vendor_err": "129", "qp": "77", "hca": "mlx5_3"},
        ),
    ],
)
def test_a_lost_path_under_infiniband_is_told_in_every_wording(message: str, expected: dict[str, str]) -> None:
    found = warn(message, "transport/net_ib.cc:839")
    assert (found.kind, found.primary) == (Kind.IB_COMPLETION, True)
    assert expected.items() <= dict(found.detail).items()
    if "peer" in message:
        assert found.peer == "10.0.0.2<41234>"


@pytest.mark.parametrize(
    "message",
    [
        "NET/IB : Got completion with error 5, opcode 1, len 0, vendor err 249",
        "NET/IB : Got completion from peer 10.0.0.2<1> with status=5 opcode=0 len=0 vendor err 249 (Recv) hca mlx5_0",
        "NET/IB: Got completion from peer 10.0.0.2<1> with status=IBV_WC_WR_FLUSH_ERR(5) opcode=X(0) vendor_err=249",
        "socketProgress: Connection closed by remote peer node7<41234>",
        "Socket recv failed while polling for opId=0x7f00",
        "Comm 0x55 is in abort state",
        "ncclOsSocketProgressOpt: Call to recv from 10.0.0.2<1> failed : Connection reset by peer",
    ],
)
def test_after_effects_are_never_causes(message: str) -> None:
    assert not warn(message).primary


@pytest.mark.parametrize(
    ("message", "file", "kind"),
    [
        ("Bootstrap : no socket interface found", "bootstrap.cc:1", Kind.NO_INTERFACE),
        ("NET/Socket : No usable listening interface found", "x.cc:1", Kind.NO_INTERFACE),
        ("socketStartConnect: Connect to 10.0.0.2<60483> failed : No route to host", "x.cc:1", Kind.CONNECT_FAILED),
        (
            "f: connect to 10.0.0.2<6> returned Connection refused, exceeded error retry count after 35 attempts",
            "x.cc:1",
            Kind.CONNECT_FAILED,
        ),
        ("Bootstrap Root : rank 3 of 4 ranks has already checked in", "bootstrap.cc:1", Kind.BOOTSTRAP),
        ("Message truncated : received 64 bytes instead of 32", "bootstrap.cc:1", Kind.BOOTSTRAP),
        ("something new in this file", "bootstrap.cc:1", Kind.BOOTSTRAP),
        ("socketProgressOpt: Call to recv from 10.0.0.2<1> failed : Connection timed out", "x.cc:1", Kind.SOCKET_ERROR),
        ("NET/IB : mlx5_0:1 Got async event : port error", "x.cc:1", Kind.IB_ASYNC),
        ("NET/IB: Device 1 marked as failed. Initiating recovery? No (x)", "x.cc:1", Kind.IB_DEVICE_FAILED),
        ("Call to ibv_modify_qp failed with error Invalid argument", "x.cc:1", Kind.IB_QP),
        ("Call to ibv_reg_mr_iova2 failed with error Cannot allocate memory errno 12", "x.cc:1", Kind.GDR_MEMORY),
        ("Call to ibv_create_cq failed with error Cannot allocate memory", "x.cc:1", Kind.GDR_MEMORY),
        ("Error: failed to extend /dev/shm/nccl-03v824 to 4194660 bytes", "x.cc:1", Kind.SHM),
        ("Cuda failure 1 'invalid argument'", "transport/nvls.cc:244", Kind.NVLS),
        ("Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2 : CUDA error 401 'x'.", "x.cc:1", Kind.NVLS),
        ("MNNVL (cliqueSize 8) is available but not working on this system. Check the IMEX", "x.cc:1", Kind.MNNVL),
        (
            "P2P is disabled between NVLINK connected GPUs 0 and 1. This should not be the case",
            "x.cc:1",
            Kind.P2P_DISABLED,
        ),
        ("No transport found for rank 0[1b000] -> rank 1[2b000]", "x.cc:1", Kind.NO_TRANSPORT),
        ("Cuda failure 800 'operation not permitted'", "transport/p2p.cc:1", Kind.CUDA),
        (
            "Mismatched collective detected, please check your collective calls at and around rank 2.",
            "x.cc:1",
            Kind.COLLECTIVE_MISMATCH,
        ),
        (
            "NET/Socket : peer 10.0.0.2<1> message truncated : receiving 8 bytes instead of 4. x",
            "x.cc:1",
            Kind.COLLECTIVE_MISMATCH,
        ),
        ("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1b000", "x.cc:1", Kind.DUPLICATE_GPU),
        ("[Proxy Service 3] Failed to execute operation Setup from rank 3, retcode 3", "proxy.cc:1", Kind.PROXY),
        ("Failed to initialize any NET plugin", "plugin/net.cc:334", Kind.NET_PLUGIN),
        ("nobody has seen this before", "new.cc:1", Kind.OTHER),
    ],
)
def test_causes_by_kind(message: str, file: str, kind: Kind) -> None:
    found = warn(message, file)
    assert (found.kind, found.primary) == (kind, True)


def test_the_details_that_a_detector_asks_for() -> None:
    assert warn("Mismatched collective detected, please check x at and around rank 2.").detail == (("rank", "2"),)
    refused = warn("socketStartConnect: connect to 10.77.0.2<60483> failed : Network is unreachable")
    assert (refused.peer, refused.detail) == ("10.77.0.2<60483>", (("error", "Network is unreachable"),))
    nvls = warn("Cuda failure 1 'invalid argument'", "transport/nvls.cc:244")
    assert dict(nvls.detail) == {"code": "1", "error": "invalid argument", "file": "transport/nvls.cc:244"}
    queue = warn(
        "Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_bond_0:1, curr state INIT, "
        "next state RTR, local GID index 3, local GID ::ffff:10.0.0.1, remote GID ::ffff:10.0.0.2"
    )
    assert dict(queue.detail) == {
        "call": "ibv_modify_qp",
        "errno": "110",
        "error": "Connection timed out",
        "hca": "mlx5_bond_0:1",
        "state": "INIT",
        "next_state": "RTR",
        "gid_index": "3",
        "local_gid": "::ffff:10.0.0.1",
        "remote_gid": "::ffff:10.0.0.2",
    }
    event = dict(warn("NET/IB : mlx5_0:1 Got non-fatal async event: port error(10)").detail)
    assert event == {"hca": "mlx5_0", "port": "1", "event": "port error(10)", "fatal": "no"}


@pytest.mark.parametrize(
    "message",
    [
        "NET/IB : No device found.",
        "NET/Plugin: Could not find: libnccl-net.so",
        "Failed to initialize NET plugin IB",
        "misc/socket.cc:671 -> 2",
        "transport/nvls.cc:394 (ncclNvlsSetup) -> 1",
        "RAS collective 192.0.2.2<40171>:1 timeout warning (5s) -- 0 responses missing",
        "RAS old socket connection with 192.0.2.2<40171> closed by peer on receive; terminating it",
        "RAS failed to find a matching client!",
    ],
)
def test_what_healthy_jobs_print_is_no_problem(message: str) -> None:
    assert info(message) is None


@pytest.mark.parametrize(
    ("message", "kind", "primary", "peer"),
    [
        ("RAS declaring peer 192.0.2.2<50775> as DEAD; rank 3", Kind.RAS, True, "192.0.2.2<50775>"),
        ("RAS keep-alive timeout warning (5s) on socket connection with 10.77.0.1<5>", Kind.RAS, True, "10.77.0.1<5>"),
        ("RAS init timeout error (20s) on socket connection with 10.77.0.1<5> (x)", Kind.RAS, False, "10.77.0.1<5>"),
        (
            "RAS collective 192.0.2.2<40171>:1 timeout warning (5s) -- 2 responses missing",
            Kind.RAS,
            False,
            None,
        ),
        ("[Service thread] Connection closed by localRank 3", Kind.CLOSED_BY_PEER, False, None),
        ("Call to connect returned Connection refused, retrying", Kind.CONNECT_RETRY, False, None),
        ("P2P is disabled between connected GPUs 0 and 1. You can repress this message", Kind.P2P_DISABLED, True, None),
    ],
)
def test_info_lines_that_tell_of_a_fault(message: str, kind: Kind, primary: bool, peer: str | None) -> None:
    found = info(message)
    assert found is not None
    assert (found.kind, found.primary, found.peer) == (kind, primary, peer)
