"""NCCL's log says what it chose and over what: for the run, and for the fingerprint."""

from __future__ import annotations

from rankmuster.bench.nccl_view import view_of_log
from rankmuster.model.benchmark import AlgorithmChoice

MIB = 1 << 20


def line(rank: int, message: str) -> str:
    return f"node01:{70 + rank}:{170 + rank} [{rank}] NCCL INFO {message}\n"


def log(*messages: str, ranks: int = 2) -> bytes:
    return "".join(line(rank, message) for rank in range(ranks) for message in messages).encode()


CHOSEN = f"AllReduce: {MIB} Bytes -> Algo RING proto SIMPLE channel{{Lo..Hi}}={{0..15}}"


def test_choices_transports_channels_and_settings() -> None:
    view = view_of_log(
        log(
            "NCCL_PROTO set by environment to Simple.",
            "Channel 00/24 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 01/24 : 0[0] -> 1[1] via SHM/direct/direct",
            "24 coll channels, 24 collnet channels, 0 nvls channels, 32 p2p channels, 32 p2p channels per peer",
            "Pattern 4, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PIX, sameChannels 1",
            "Pattern 1, crossNic 0, nChannels 12, bw 20.0/20.0, type NVL/PHB, sameChannels 1",
            CHOSEN,
            "AllGather [Symmetric]: 4194304 Bytes -> Kernel AllGather_LLMC nchannels 8 nthreads 512 nWorks 1",
        )
    )
    assert view.choices == (
        AlgorithmChoice("all_gather", 4 * MIB, "AllGather_LLMC", "Symmetric", 8),
        AlgorithmChoice("all_reduce", MIB, "RING", "SIMPLE", 16),
    )
    assert view.transports == ("P2P/CUMEM", "SHM/direct/direct")
    assert view.channels == 24
    assert view.view.graphs == ("NVL/PHB", "NVL/PIX")
    assert view.view.choices == view.choices
    assert view.settings[0][0] == "NCCL_PROTO"


def test_of_ranks_that_differ_most_count() -> None:
    odd = line(2, CHOSEN.replace("SIMPLE", "LL"))
    view = view_of_log(log(CHOSEN) + odd.encode())
    assert [one.protocol for one in view.choices] == ["SIMPLE"]


def test_old_numbers_have_names_and_no_operation() -> None:
    (choice,) = view_of_log(log("1048576 Bytes -> Algo 1 proto 2 time 45.3")).choices
    assert (choice.operation, choice.algorithm, choice.protocol, choice.channels) == ("", "Ring", "Simple", None)


def test_nccls_own_topology_is_part_of_the_view() -> None:
    xml = (
        b'<system version="1"><cpu numaid="0"><pci busid="0000:1b:00.0"><gpu dev="0" sm="90" rank="0" gdr="1">'
        b'<nvlink target="ffff:ff:ff" count="18" tclass="0x068000"/></gpu></pci><nic><net name="mlx5_0" dev="0" '
        b'speed="400000" port="1" gdr="1"/></nic></cpu></system>'
    )
    view = view_of_log(log(CHOSEN), topology=xml).view
    assert view.gpus == ((0, "0000:1b:00.0", 18),)
    assert view.nets == (("mlx5_0", 400.0, True),)


def test_a_log_without_a_word_of_it_says_nothing() -> None:
    for data in (b"", b"\x00\xff\x80", b"hello\n"):
        view = view_of_log(data)
        assert (view.choices, view.transports, view.channels, view.nccl_version) == ((), (), None, None)
