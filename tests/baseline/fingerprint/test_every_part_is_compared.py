"""Whatever changes of a node is told of by a diff: each part of a whole machine is changed by itself."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

import pytest

from baseline.fingerprint.build_path import links, pcie_box
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.baseline.fingerprint.changes import changes
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.node_path import Link, NcclView, NodePath

NOT_COMPARED = {
    r"host|taken_at|sources/.*": "who and when it was",
    r"gpus/0/pcie/generation": "falls on an idle GPU",
    r"pci/0000:.1:00.0/link/generation": "the same in /sys",
    r"pci/0000:.0:01.0/link/generation": "follows the idle GPU's",
    r"gpus/0/links/0/link": "which number a link has: the others tell how many there are",
    r"matrices/./kind": "the key that it stands under",
    r"matrices/./cells/\('(\w+)', '\1'\)": "a GPU and itself",
    r"pci/0000:.[12]:00.0/root|pci/0000:[024]0:01.0/root": "a bus number; that of two bridges of one root is compared",
    r"pci/[^/]*/class_code": "what is behind the address is compared",
    r"pci/0000:.[12]:00.0/(vendor|device)": "the model of the GPU or NIC",
    r"pci/0000:.[12]:00.0/acs_redirects": "of bridges alone",
    r"pci/0000:.0:0[12].0/numa": "that of the GPUs and NICs is compared",
    r"nics/0/ports/0/gids/0/1": "the address of a GID that is a RoCE v2 one all the same",
    r"nccl_view/gpus/0/[01]|nccl_view/nets/0/0": "who it is",
    r"nccl_view/choices/0/(operation|size_bytes)": "another measurement: nothing to compare with",
}
"""Paths and why a change of them is none."""

OTHER = {"state": "inactive", "type": "IB/RoCE v1", "2": "IB/RoCE v1"}
STEADY = "Persistence Mode"


def whole() -> NodePath:
    """A machine with something in every field, at the lowest values that do not yet change a setting."""
    box = pcie_box()
    gpus = tuple(replace(one, links=links(2), facts={STEADY: "Enabled"}) for one in box.gpus)
    choice = AlgorithmChoice("all_reduce", 1 << 20, "Ring", "LL128", 16)
    view = NcclView(((0, "1000", 2),), (("mlx5_0", 100.0, True),), ("PIX/SYS",), (choice,), ("P2P/CUMEM",))
    return replace(
        box,
        gpus=gpus,
        nvswitches=4,
        container=replace(box.container, shm_bytes=1 << 30),
        nccl_settings={"NCCL_IB_HCA": "mlx5", "NCCL_DEBUG": "WARN"},
        nccl_view=view,
        sources=(("sys", "read"),),
    )


def other(name: str, value: Any) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float)):
        return 1.0 if value == float("inf") else type(value)(value / 2) or type(value)(value + 1)
    return OTHER.get(name, f"{value}-other")


def is_row(value: tuple[Any, ...]) -> bool:
    """Whether the tuple is one thing with several values, like a GID with its index and type."""
    return len({type(one) for one in value}) > 1 and not any(isinstance(one, tuple) for one in value)


def changed(value: Any, at: str = "") -> Iterator[tuple[str, Any]]:
    """(path, the value with that one leaf changed); of a list its first member, of the PCI tree each."""
    name = at.rpartition("/")[2]
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            for path, new in changed(getattr(value, field.name), f"{at}/{field.name}".strip("/")):
                yield path, replace(value, **{field.name: new})
    elif isinstance(value, Mapping):
        for key, one in list(value.items())[:7]:
            for path, new in changed(one, f"{at}/{key}"):
                yield path, {**value, key: new}
    elif isinstance(value, tuple):
        for place, one in enumerate(value if name == "pci" or is_row(value) else value[:1]):
            key = one.address if name == "pci" else place
            for path, new in changed(one, f"{at}/{key}"):
                yield path, (*value[:place], new, *value[place + 1 :])
    elif value is not None:
        yield at, other(name, value)


CHANGED = dict(changed(whole()))
BEFORE = fingerprint_of(whole())


def left_out(path: str) -> bool:
    return any(re.fullmatch(pattern, path) for pattern in NOT_COMPARED)


@pytest.mark.parametrize("path", [path for path in CHANGED if not left_out(path)])
def test_a_change_of_any_part_is_told_with_its_effect(path: str) -> None:
    found = changes(BEFORE, fingerprint_of(CHANGED[path]))
    assert found
    assert all(change.effect != "no effect on NCCL is known" for change in found)


@pytest.mark.parametrize("pattern", NOT_COMPARED)
def test_what_is_left_out_is_there_and_makes_no_difference(pattern: str) -> None:
    paths = [path for path in CHANGED if re.fullmatch(pattern, path)]
    assert paths
    told = {path: changes(BEFORE, fingerprint_of(CHANGED[path])) for path in paths}
    assert not {path: found for path, found in told.items() if found}


def test_a_nics_own_link_that_fell_is_told_with_what_it_does() -> None:
    box = pcie_box()
    slow = replace(
        box,
        pci=tuple(replace(n, link=Link(3, 8, 4, 16)) if n.address == box.nics[0].address else n for n in box.pci),
    )
    found = {change.part: change for change in changes(fingerprint_of(box), fingerprint_of(slow))}
    assert set(found) == {"nics/mlx5_0/pcie/width", "nics/mlx5_0/pcie/generation"}
    width = found["nics/mlx5_0/pcie/width"]
    assert (width.before, width.after, width.applies) == ("16", "8", True)
    assert "carries no more than that" in width.effect


def test_a_gpus_link_that_only_sys_shows_fallen_is_told() -> None:
    box = pcie_box()
    slow = replace(
        box, pci=tuple(replace(n, link=Link(4, 4, 4, 16)) if n.address == box.gpus[2].bus_id else n for n in box.pci)
    )
    (found,) = changes(fingerprint_of(box), fingerprint_of(slow))
    assert (found.part, found.before, found.after) == ("gpus/2/pcie/width", "16", "4")
