"""Which NIC belongs to which GPU, on nodes as they are built."""

from __future__ import annotations

import pytest

from rankmuster.bench.rails import NoRails, Rail, rails_of
from rankmuster.model.node_path import (
    ContainerFacts,
    CpuFacts,
    GpuPath,
    Link,
    Matrix,
    NicPath,
    NicPort,
    NodePath,
    PciNode,
    SoftwareFacts,
)
from rankmuster.model.unknown import Unknown

NO = Unknown("not asked")
LINK = Link(5, 16, 5, 16)


def gpu(index: int, bus: str) -> GpuPath:
    return GpuPath(index, f"GPU-{index}", bus, "H200", NO, NO, LINK, (), NO, NO)


def nic(name: str, address: str, rate: float = 400.0, state: str = "ACTIVE") -> NicPath:
    port = NicPort(1, state, "InfiniBand", rate, 4096, NO)
    return NicPath(name, True, address, "MT4129", NO, NO, NO, None, (port,))


def bridge(address: str, parent: str | None, root: str = "pci0000:00", numa: int = 0) -> PciNode:
    return PciNode(address, root, parent, "0x060400", "0x1000", "0xc030", numa, LINK, NO)


def node(
    gpus: tuple[GpuPath, ...],
    nics: tuple[NicPath, ...] | Unknown,
    pci: tuple[PciNode, ...] | Unknown = NO,
    matrix: Matrix | None = None,
) -> NodePath:
    return NodePath(
        "n",
        0.0,
        NO,
        NO,
        gpus,
        NO,
        {} if matrix is None else {"m": matrix},
        pci,
        nics,
        CpuFacts(NO, NO, NO, NO, NO),
        ContainerFacts(NO, NO, NO, NO, NO, NO, NO, NO),
        SoftwareFacts(NO, NO, NO, NO, NO, NO),
        NO,
    )


def test_a_switch_for_each_gpu_and_its_nic() -> None:
    """As DGX H100: the matrix says PIX for one NIC of each GPU."""
    gpus = tuple(gpu(index, f"0000:{index + 1:x}0:00.0") for index in range(4))
    nics = tuple(nic(f"mlx5_{index}", f"0000:{index + 1:x}1:00.0") for index in range(4))
    order = (2, 0, 3, 1)  # the NICs' numbers do not follow the GPUs'
    cells = {(f"GPU{g}", f"NIC{n}"): "PIX" if order[g] == n else "SYS" for g in range(4) for n in range(4)}
    matrix = Matrix("m", cells, {f"NIC{n}": f"mlx5_{n}" for n in range(4)})
    found = rails_of(node(gpus, nics, matrix=matrix))
    assert found == tuple(Rail(g, (f"mlx5_{order[g]}",)) for g in range(4))
    assert found[0].environment["NCCL_IB_HCA"] == "=mlx5_2"
    assert found[0].environment["CUDA_VISIBLE_DEVICES"] == "0"


def test_two_gpus_share_a_switch_with_two_nics() -> None:
    """As DGX A100, by the PCI tree alone: GPUs and NICs below one switch are shared out in order."""
    pci = []
    gpus, nics = [], []
    for half in range(2):
        root, port = f"pci0000:{half}0", f"0000:{half}0:01.0"
        pci += [bridge(port, None, root, half), bridge(f"0000:{half}1:00.0", port, root, half)]
        for place in range(4):
            down = f"0000:{half}2:0{place}.0"
            pci.append(bridge(down, f"0000:{half}1:00.0", root, half))
            address = f"0000:{half}{place + 3}:00.0"
            pci.append(PciNode(address, root, down, "0x030200", "0x10de", "0x2335", half, LINK, NO))
            if place < 2:
                gpus.append(gpu(len(gpus), address))
            else:
                nics.append(nic(f"mlx5_{len(nics)}", address))
    found = rails_of(node(tuple(gpus), tuple(nics), tuple(pci)))
    assert [rail.nics for rail in found] == [("mlx5_0",), ("mlx5_1",), ("mlx5_2",), ("mlx5_3",)]


def test_slow_and_dark_nics_belong_to_no_rail() -> None:
    matrix = Matrix("m", {("GPU0", f"NIC{n}"): "PIX" for n in range(3)}, {f"NIC{n}": f"mlx5_{n}" for n in range(3)})
    nics = (nic("mlx5_0", "a", 100.0), nic("mlx5_1", "b", 400.0), nic("mlx5_2", "c", 400.0, "DOWN"))
    assert rails_of(node((gpu(0, "x"),), nics, matrix=matrix)) == (Rail(0, ("mlx5_1",)),)


def test_what_is_not_known_is_said() -> None:
    with pytest.raises(NoRails, match="not asked"):
        rails_of(node((gpu(0, "x"),), NO))
    with pytest.raises(NoRails, match="no RDMA"):
        rails_of(node((gpu(0, "x"),), ()))
    with pytest.raises(NoRails, match="matrix"):
        rails_of(node((gpu(0, "x"),), (nic("mlx5_0", "y"),)))
