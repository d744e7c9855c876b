"""The topology hash names a node model: the same for every machine of it, another for other wiring."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from baseline.fingerprint.build_path import gpu, h200_vm, hgx, links, near_matrix, pcie_box, without_sys
from baseline.fingerprint.relabel import relabelled
from rankmuster.baseline.fingerprint import canonical
from rankmuster.baseline.fingerprint.topology import TopologySource, topology_of
from rankmuster.model.node_path import GpuPath, Link, Matrix, NodePath, NvLink
from rankmuster.model.unknown import Unknown

MACHINES: dict[str, Callable[[], NodePath]] = {"vm": h200_vm, "hgx": hgx, "pcie": pcie_box}


def hash_of(path: NodePath) -> str:
    found = topology_of(path).hash
    assert isinstance(found, str), found
    return found


def direct(pairs: dict[tuple[int, int], int], count: int = 8) -> NodePath:
    """GPUs in a flat tree, linked to one another by so many NVLinks each."""
    base = h200_vm()
    each: dict[int, list[NvLink]] = {number: [] for number in range(count)}
    for (one, other), number in pairs.items():
        each[one] += links(number, f"gpu:{other}")
        each[other] += links(number, f"gpu:{one}")
    gpus = tuple(gpu(i, f"0000:00:{0x10 + i:02x}.0", -1, tuple(each[i])) for i in range(count))
    example = base.pci[0]
    pci = tuple(replace(example, address=one.bus_id) for one in gpus)
    return replace(base, gpus=gpus, pci=pci, nics=())


def ring(*members: int) -> dict[tuple[int, int], int]:
    return dict.fromkeys(zip(members, (*members[1:], members[0]), strict=True), 2)


def with_gpu(path: NodePath, index: int, **changed: object) -> NodePath:
    return replace(path, gpus=tuple(replace(one, **changed) if one.index == index else one for one in path.gpus))


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(MACHINES)), st.integers())
def test_another_machine_of_the_model_has_the_same(name: str, seed: int) -> None:
    assert hash_of(relabelled(MACHINES[name](), seed)) == hash_of(MACHINES[name]())


@settings(max_examples=60, deadline=None)
@given(st.dictionaries(st.tuples(st.integers(0, 3), st.integers(4, 7)), st.integers(1, 4), max_size=10), st.integers())
def test_so_it_is_of_any_mesh_of_nvlinks(pairs: dict[tuple[int, int], int], seed: int) -> None:
    assert hash_of(relabelled(direct(pairs), seed)) == hash_of(direct(pairs))


def test_machines_of_different_models_differ() -> None:
    found = [hash_of(make()) for make in MACHINES.values()] + [hash_of(hgx("NVIDIA H200"))]
    assert len(set(found)) == len(found)


def test_two_rings_of_four_gpus_are_not_one_ring_of_eight() -> None:
    two, one = direct(ring(0, 1, 2, 3) | ring(4, 5, 6, 7)), direct(ring(0, 1, 2, 3, 4, 5, 6, 7))
    assert hash_of(two) != hash_of(one)
    assert hash_of(two) == hash_of(direct(ring(0, 2, 4, 6) | ring(1, 3, 5, 7)))


@pytest.mark.parametrize("number", range(1, 8))
def test_a_nic_at_another_switch_is_another_model(number: int) -> None:
    base = hgx()
    nic = base.nics[number]
    port = next(node.parent for node in base.pci if node.address == nic.address)
    switches = [node.address for node in base.pci if node.parent is not None and node.address.endswith(":00.0")]
    now = next(node.parent for node in base.pci if node.address == port)
    elsewhere = next(one for one in switches if one != now and any(n.parent == one for n in base.pci))
    moved = replace(base, pci=tuple(replace(n, parent=elsewhere) if n.address == port else n for n in base.pci))
    assert hash_of(moved) != hash_of(base)


@pytest.mark.parametrize(
    "change",
    [
        lambda p: replace(p, nics=p.nics[:-1]),
        lambda p: replace(p, gpus=p.gpus[:-1]),
        lambda p: replace(p, nics=(*p.nics[:-1], replace(p.nics[-1], model="MT4125"))),
        lambda p: with_gpu(p, 3, pcie=Link(5, 16, 4, 16)),
        lambda p: with_gpu(p, 3, links=links(12)),
        lambda p: replace(p, cpu=replace(p.cpu, model="207")),
        lambda p: replace(p, pci=tuple(replace(n, device="0xc010") if n.device == "0xc030" else n for n in p.pci)),
        lambda p: replace(p, pci=tuple(replace(n, numa=0) for n in p.pci)),
    ],
    ids=["nic gone", "gpu gone", "nic model", "slot", "nvlinks", "cpu", "switch", "sockets"],
)
def test_other_parts_are_another_model(change: Callable[[NodePath], NodePath]) -> None:
    assert hash_of(change(hgx())) != hash_of(hgx())


def lost(one: GpuPath, count: int) -> tuple[NvLink, ...]:
    said = Unknown("an inactive link does not say")
    keep = len(one.links) - count
    return (*one.links[:keep], *(NvLink(n, "inactive", said, said, said) for n in range(keep, len(one.links))))


@pytest.mark.parametrize(
    "change",
    [
        lambda p: with_gpu(p, 3, links=lost(p.gpus[3], 3)),
        lambda p: with_gpu(p, 3, links=lost(p.gpus[3], 18)),
        lambda p: with_gpu(p, 3, pcie=Link(1, 8, 5, 16)),
        lambda p: replace(
            p, nics=(replace(p.nics[0], ports=(replace(p.nics[0].ports[0], rate_gbps=200.0),)), *p.nics[1:])
        ),
        lambda p: replace(
            p, nics=(replace(p.nics[0], ports=(replace(p.nics[0].ports[0], state="DOWN"),)), *p.nics[1:])
        ),
        lambda p: replace(p, pci=tuple(replace(n, link=Link(3, 4, 5, 16)) for n in p.pci)),
        lambda p: replace(p, pci=tuple(replace(n, acs_redirects=True) for n in p.pci)),
    ],
    ids=["3 links down", "all links down", "half width", "slow port", "port down", "slow bridges", "ACS"],
)
def test_a_degraded_node_keeps_its_model_and_is_compared_with_it(change: Callable[[NodePath], NodePath]) -> None:
    assert hash_of(change(hgx())) == hash_of(hgx())


def test_a_link_lost_in_a_mesh_is_found_again_where_only_one_pair_misses_one() -> None:
    base = direct(ring(0, 1, 2, 3), count=4)
    down = Unknown("inactive")
    half = {0: "gpu:1", 1: "gpu:0"}

    def without(one: GpuPath) -> GpuPath:
        if one.index not in half:
            return one
        place = next(n for n, link in enumerate(one.links) if link.remote == half[one.index])
        gone = replace(one.links[place], state="inactive", remote=down)
        return replace(one, links=(*one.links[:place], gone, *one.links[place + 1 :]))

    broken = replace(base, gpus=tuple(without(one) for one in base.gpus))
    assert hash_of(broken) == hash_of(base)
    lonely = replace(base, gpus=(without(base.gpus[0]), *base.gpus[1:]))
    found = topology_of(lonely).hash
    assert isinstance(found, Unknown)
    assert "GPU 0 NVLinks unknown: 1 links are down and do not say which" in found.reason


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: with_gpu(p, 2, model=Unknown("NVML: GPU is lost")), "GPU 2 model unknown: NVML: GPU is lost"),
        (lambda p: with_gpu(p, 2, links=Unknown("it hangs")), "GPU 2 NVLinks unknown: it hangs"),
        (lambda p: replace(p, nics=Unknown("no /sys/class")), "NICs unknown: no /sys/class"),
        (lambda p: replace(p, cpu=replace(p.cpu, model=Unknown("no lscpu"))), "CPU model unknown: no lscpu"),
        (lambda p: replace(p, pci=Unknown("no /sys"), matrices={}), "PCI tree unknown: no /sys"),
        (lambda p: replace(p, gpus=Unknown("no NVML"), matrices={}), "GPUs unknown: no NVML"),
    ],
)
def test_what_is_unknown_of_it_is_named(change: Callable[[NodePath], NodePath], named: str) -> None:
    found = topology_of(change(hgx()))
    assert isinstance(found.hash, Unknown)
    assert named in found.hash.reason
    assert isinstance(found.nic_order, Unknown)


def test_a_matrix_alone_gives_a_hash_of_another_source() -> None:
    whole = replace(h200_vm(), nics=())
    text = without_sys(whole)
    found = topology_of(text)
    assert found.source is TopologySource.MATRIX
    assert isinstance(found.hash, str)
    assert found.hash != topology_of(whole).hash
    assert found.hash == topology_of(without_sys(replace(whole, gpus=whole.gpus[::-1]))).hash
    one_link_less = {
        pair: "NV17" if "GPU2" in pair and word == "NV18" else word for pair, word in text.matrices["m"].cells.items()
    }
    assert topology_of(replace(text, matrices={"m": Matrix("m", one_link_less)})).hash == found.hash
    assert topology_of(replace(text, matrices={"m": near_matrix(4, "SYS")})).hash != found.hash


def test_a_matrix_with_a_cell_missing_gives_none() -> None:
    cells = {
        pair: word for pair, word in near_matrix(4, "NV18").cells.items() if pair[0] == "GPU0" and pair[1] < "GPU3"
    }
    found = topology_of(without_sys(replace(h200_vm(), nics=(), matrices={"m": Matrix("m", cells)}))).hash
    assert isinstance(found, Unknown)
    assert "connection of GPU0 and GPU3" in found.reason


def test_nics_in_another_order_are_the_same_model_with_another_order() -> None:
    base = hgx()
    mixed = replace(base, nics=(base.nics[7], *base.nics[1:7], base.nics[0]))
    assert topology_of(mixed).hash == topology_of(base).hash
    assert topology_of(mixed).nic_order != topology_of(base).nic_order
    alike = replace(base, nics=(base.nics[1], base.nics[0], *base.nics[2:]))  # both at one switch: alike to every GPU
    assert topology_of(alike).nic_order == topology_of(base).nic_order


def test_a_tree_that_is_a_ring_ends() -> None:
    base = h200_vm()
    a, b = base.pci[0], base.pci[1]
    ring_of_bridges = (replace(a, parent=b.address), replace(b, parent=a.address), *base.pci[2:])
    found = topology_of(replace(base, pci=ring_of_bridges, matrices={})).hash
    assert isinstance(found, Unknown)
    assert "or a ring" in found.reason


def rack() -> NodePath:
    """72 GPUs of one NVLink domain, as if one kernel saw them all."""
    base = h200_vm()
    gpus = tuple(gpu(i, f"{i:04x}:01:00.0", i // 36, links(18), "NVIDIA GB200") for i in range(72))
    pci = tuple(
        replace(base.pci[0], address=one.bus_id, root=f"pci{i:04x}:00", numa=i // 36) for i, one in enumerate(gpus)
    )
    return replace(base, gpus=gpus, pci=pci, nics=(), cpu=replace(base.cpu, numa_nodes=2), matrices={})


def wide() -> NodePath:
    """Eight GPUs and sixteen NICs."""
    base = hgx()
    more = tuple(replace(nic, name=f"{nic.name}b", guid=f"{nic.guid}b") for nic in base.nics)
    return replace(base, nics=(*base.nics, *more))


@pytest.mark.parametrize(
    "path", [hgx(), wide(), rack(), without_sys(replace(rack(), matrices={"m": near_matrix(72, "NV18")}))]
)
def test_real_nodes_take_a_small_part_of_the_work_that_is_allowed(
    path: NodePath, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canonical, "MOST_WORK", canonical.MOST_WORK // 30)  # milliseconds: benchmarks/fingerprint_bench
    assert isinstance(hash_of(path), str)


def test_it_does_not_depend_on_how_this_process_hashes_or_speaks() -> None:
    program = (
        "from baseline.fingerprint.build_path import hgx; from rankmuster.baseline.fingerprint.topology import "
        "topology_of; import locale; locale.setlocale(locale.LC_ALL, ''); print(topology_of(hgx()).hash)"
    )
    tests = str(Path(__file__).parents[2])
    known = subprocess.run(["locale", "-a"], capture_output=True, text=True, check=False).stdout.split()
    for seed, spoken in enumerate(["C", *(name for name in known if name.startswith(("de", "tr", "C.")))][:4]):
        env = {**os.environ, "PYTHONHASHSEED": str(seed), "LC_ALL": spoken, "PYTHONPATH": tests}
        run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=env, check=False)
        assert run.stdout.strip() == hash_of(hgx()), run.stderr
