"""Floors: what hardware must reach, named by source; generous to the healthy, and no guess where nothing is known."""

from __future__ import annotations

import pytest

from rankmuster.baseline.floors import Floor, FloorInput, floor_of
from rankmuster.baseline.gpu_links import nvlink_of
from rankmuster.model.benchmark import Operation

GIB = 1 << 30
MIB = 1 << 20


def _floor(given: FloorInput, operation: Operation = Operation.ALL_REDUCE) -> Floor:
    found, why = floor_of(operation, given)
    assert found is not None, why
    return found


@pytest.mark.parametrize(
    ("given", "size", "published"),
    [
        (FloorInput("NVIDIA A100-SXM4-80GB", 8), 8 * GIB, 231.6),
        (FloorInput("NVIDIA H100 80GB HBM3", 8), GIB, 360),
        (FloorInput("NVIDIA H200", 8), 16 * MIB, 240),
        (FloorInput("NVIDIA H800", 8), GIB, 200),
        (FloorInput("NVIDIA B200", 8), 8 * GIB, 830),
        (FloorInput("NVIDIA RTX PRO 6000 Blackwell Server Edition", 8, pcie_gbs=63), 256 * MIB, 22),
        (FloorInput("NVIDIA H100 80GB HBM3", 8, nic_gbs=400, rdma=True, nodes=10), 16 * GIB, 320),
        (FloorInput("NVIDIA H100 80GB HBM3", 1, nic_gbs=50, rdma=True, nodes=10), 16 * GIB, 48.9),
        (FloorInput("NVIDIA A100-SXM4-80GB", 8, nic_gbs=200, rdma=True, nodes=2), GIB, 178),
    ],
)
def test_published_healthy_systems_are_well_above_their_floor(given: FloorInput, size: int, published: float) -> None:
    floor = _floor(given).busbw(size)
    assert floor < 0.9 * published
    assert floor > 0.15 * published


@pytest.mark.parametrize(
    ("given", "broken"),
    [
        (FloorInput("NVIDIA H200", 4), 147),  # LL forced, 256 MiB
        (FloorInput("NVIDIA H200", 4), 24),  # peer-to-peer off
        (FloorInput("NVIDIA H100 80GB HBM3", 8, nic_gbs=400, rdma=True, nodes=2), 15),  # one NIC, no GPUDirect
        (FloorInput("NVIDIA H100 80GB HBM3", 8, nic_gbs=400, rdma=True, nodes=2), 1.1),  # sockets
    ],
)
def test_published_broken_systems_are_below(given: FloorInput, broken: float) -> None:
    assert _floor(given).busbw(256 * MIB) > broken


def test_what_was_read_of_the_links_counts_before_the_table() -> None:
    read = _floor(FloorInput("Some Accelerator 9000", 8, nvlink_gbs=600, nvlink_to_all=True))
    assert "600 GB/s of one GPU's NVLinks (as read from the node)" in read.source
    assert "data sheet of NVIDIA H200" in _floor(FloorInput("NVIDIA H200", 4)).source


def test_bridges_between_pairs_do_not_carry_a_ring_over_eight_cards() -> None:
    found, why = floor_of(Operation.ALL_REDUCE, FloorInput("NVIDIA H100 NVL", 8))
    assert found is None
    assert "PCIe slot could not be read" in why
    slot = _floor(FloorInput("NVIDIA H100 NVL", 8, pcie_gbs=63))
    assert "NVLink does not join all of its GPUs" in slot.source
    assert "NVLinks" in _floor(FloorInput("NVIDIA H100 NVL", 2)).source


def test_between_nodes_the_operation_and_the_way_decide() -> None:
    given = FloorInput("NVIDIA H200", 8, nic_gbs=400, rdma=True, nodes=2)
    ring = _floor(given)
    assert _floor(given, Operation.SEND_RECV).rate < _floor(given, Operation.ALL_TO_ALL).rate < ring.rate
    sockets = _floor(FloorInput("NVIDIA H200", 8, nic_gbs=400, rdma=False, nodes=2))
    assert sockets.rate < ring.rate
    assert "sockets" in sockets.source


@pytest.mark.parametrize(
    ("given", "word"),
    [
        (FloorInput(None, 8), "not known"),
        (FloorInput("NVIDIA H200", 1), "single GPU"),
        (FloorInput("NVIDIA H200", 8, nodes=2), "NICs between the nodes"),
        (FloorInput("NVIDIA L40S", 4), "PCIe slot could not be read"),
    ],
)
def test_without_the_facts_there_is_no_floor_and_the_missing_one_is_named(given: FloorInput, word: str) -> None:
    found, why = floor_of(Operation.ALL_REDUCE, given)
    assert found is None
    assert word in why


def test_small_sizes_have_low_floors() -> None:
    floor = _floor(FloorInput("NVIDIA H200", 4))
    assert floor.busbw(16 * MIB) < 0.5 * floor.rate
    assert floor.busbw(64 * GIB) == pytest.approx(floor.rate, rel=0.01)


@pytest.mark.parametrize(
    ("model", "gbs"),
    [
        ("NVIDIA H20", 450),
        ("NVIDIA GB200", 900),
        ("Tesla V100-SXM2-32GB", 150),
        ("NVIDIA A10", 0),
        ("AMD MI300X", None),
    ],
)
def test_the_table_of_links(model: str, gbs: float | None) -> None:
    found = nvlink_of(model)
    assert (None if found is None else found.gbs) == gbs
