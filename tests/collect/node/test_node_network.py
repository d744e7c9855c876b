"""Ports of /sys, with everything that drivers put there."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from node_bench import HOST, Bench

from rankmuster.collect.machine import Machine
from rankmuster.collect.node.network import Network
from rankmuster.collect.outcome import Ending
from rankmuster.evidence.bundle import load
from rankmuster.model.network import NetworkTrack, PortKind
from rankmuster.model.topology import RdmaPort


def put(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (folder / name).write_text(content + "\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """An mlx5 port, an Ethernet interface below a link (as /sys has them), and interfaces of pods."""
    sys = tmp_path / "sys"
    device = sys / "devices" / "mlx5_0"
    put(device, fw_ver="28.41.1000", board_id="MT_0000000838", node_desc="node-a1 mlx5_0")
    port = device / "ports" / "1"
    put(port, state="4: ACTIVE", phys_state="5: LinkUp", rate="400 Gb/sec (4X NDR)", link_layer="Ethernet")
    put(port / "counters", port_xmit_data="1000", port_rcv_data="2000", link_downed="1", port_xmit_wait="N/A (no PMA)")
    put(port / "hw_counters", lifespan="10", out_of_sequence="7", rx_write_requests=str(2**32 - 1))
    put(
        port / "gids",
        **{"0": "0000:0000:0000:0000:0000:0000:0000:0000", "3": "0000:0000:0000:0000:0000:ffff:0a00:0001"},
    )
    put(port / "gid_attrs" / "types", **{"3": "RoCE v2"})
    eth = sys / "devices" / "eth0"
    put(eth, operstate="up", speed="200000", mtu="9000", carrier="1", carrier_changes="4")
    put(eth / "statistics", rx_bytes="10", tx_bytes="20", tx_errors="0")
    for group, name in (("infiniband", "mlx5_0"), ("net", "eth0")):
        (sys / "class" / group).mkdir(parents=True)
        (sys / "class" / group / name).symlink_to(f"../../devices/{name}")
    put(sys / "class" / "net" / "veth123" / "statistics", rx_bytes="1")
    put(sys / "class" / "net", bonding_masters="bond0")
    return Machine(hostname=HOST, sys=sys)


def test_ports_are_looked_at_twice_and_read(bench: Bench, machine: Machine):
    outcome = bench.collect(Network(), machine=machine)
    assert (outcome.ending, outcome.warnings) == (Ending.DONE, ())
    evidence = load(bench.folder)
    assert not evidence.problems
    eth, rdma = evidence.of(NetworkTrack)
    assert (eth.kind, eth.device, eth.port, eth.host) == (PortKind.ETHERNET, "eth0", None, HOST)
    assert (rdma.kind, rdma.device, rdma.port) == (PortKind.RDMA, "mlx5_0", 1)
    assert rdma.states == ("4: ACTIVE", "4: ACTIVE")
    assert eth.counters["carrier_changes"].tolist() == [4, 4]
    assert "port_xmit_wait" not in rdma.counters
    assert "lifespan" not in rdma.counters
    sent = rdma.bytes_of(sent=True)
    assert sent is not None
    assert sent.tolist() == [4000, 4000]


def test_facts_of_rdma_ports_are_read(bench: Bench, machine: Machine):
    bench.collect(Network(), machine=machine)
    (port,) = load(bench.folder).of(RdmaPort)
    assert (port.device, port.port, port.state, port.rate_gbps) == ("mlx5_0", 1, "PORT_ACTIVE", 400.0)
    assert port.gids == ((3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2"),)
    assert port.counters["out_of_sequence"] == 7
    assert port.firmware == "28.41.1000"


def test_a_node_without_sys_has_nothing(bench: Bench, tmp_path: Path):
    assert bench.collect(Network(), machine=Machine(sys=tmp_path / "none")).ending is Ending.NOTHING


def test_without_time_for_a_second_look_there_are_no_rates(bench: Bench, machine: Machine):
    outcome = bench.collect(Network(), machine=machine, look=30.0, seconds=2.0)
    assert outcome.ending is Ending.PARTIAL
    assert "looked at once" in outcome.note
    assert len(bench.text("network-counters.jsonl").splitlines()) == 2


def test_what_hangs_or_is_not_text_costs_only_itself(bench: Bench, machine: Machine):
    counters = machine.sys / "devices" / "mlx5_0" / "ports" / "1" / "counters"
    os.mkfifo(counters / "a_pipe")
    (counters / "a_folder").mkdir()
    (counters / "bytes").write_bytes(b"\xff\xfe" * 50_000)
    (counters / "nowhere").symlink_to("/nonexistent")
    (counters / "negative").write_text("-1")
    shutil.rmtree(machine.sys / "devices" / "mlx5_0" / "ports" / "1" / "gids")
    assert bench.collect(Network(), machine=machine).ending is Ending.DONE
    rdma = load(bench.folder).of(NetworkTrack)[1]
    assert set(rdma.counters) == {
        "port_xmit_data",
        "port_rcv_data",
        "link_downed",
        "out_of_sequence",
        "rx_write_requests",
    }


def test_this_machine_as_it_is(bench: Bench):
    outcome = bench.collect(Network(), machine=Machine(hostname=HOST))
    assert outcome.ending in (Ending.DONE, Ending.PARTIAL, Ending.NOTHING)
    if bench.files:
        assert not load(bench.folder).problems
