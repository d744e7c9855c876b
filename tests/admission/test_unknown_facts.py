"""What one GPU or port does not tell is unknown, whatever its siblings tell: it never counts as well."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from admitted import QUIET, captured
from rankmuster.admission.decide import decide_checks
from rankmuster.admission.hardware_clocks import clock_checks
from rankmuster.admission.hardware_links import link_checks
from rankmuster.admission.hardware_memory import memory_checks
from rankmuster.admission.hardware_pcie import pcie_checks
from rankmuster.admission.network_ports import port_checks
from rankmuster.admission.presence import presence_checks
from rankmuster.model.admission import Check, CheckState, Decision
from rankmuster.model.node_path import GpuPath, Link, NicPath, PciNode
from rankmuster.model.unknown import Unknown
from rdma_port import port

WHY = Unknown("not asked")
WORDS = (
    "N/A",
    "",
    "Unknown Error",
    "[N/A]",
    "[GPU requires reset]",
    "GPU requires reset",
    "what a driver says next year",
)

LIVE = {
    "NVLink / Counted Links": "18",
    "Fabric / Health Mask": "0x0",
    "Fabric / Health / Summary": "Healthy",
    "Fabric / Health / Bandwidth": "Full",
    "Fabric / Health / Route Unhealthy": "False",
    "PCI / Fatal Errors": "0",
    "PCI / Non Fatal Errors": "0",
    "PCI / Bad TLPs": "0",
    "PCI / Bad DLLPs": "0",
    "PCI / Receiver Errors": "0",
    "NVLink / Link 3 / dl_crc": "0",
    "Clocks Event Reasons / HW Slowdown": "Not Active",
    "Clocks Event Reasons / HW Slowdown / HW Thermal Slowdown": "Not Active",
    "Clocks Event Reasons / HW Slowdown / HW Power Brake Slowdown": "Not Active",
    "Clocks Event Reasons / SW Thermal Slowdown": "Not Active",
}

FACTS = {
    "memory-errors": (
        "ECC Errors / Volatile / SRAM Uncorrectable Parity",
        "ECC Errors / Volatile / SRAM Uncorrectable SEC-DED",
        "ECC Errors / Volatile / DRAM Uncorrectable",
        "ECC Errors / Aggregate / SRAM Threshold Exceeded",
        "ECC Errors / Channel Repair Pending",
        "ECC Errors / TPC Repair Pending",
        "ECC Errors / Unrepairable Memory",
    ),
    "remapped-rows": ("Remapped Rows / Pending", "Remapped Rows / Remapping Failure Occurred"),
    "fabric": (
        "Fabric / State",
        "Fabric / Status",
        "Fabric / Health Mask",
        "Fabric / Health / Summary",
        "Fabric / Health / Bandwidth",
        "Fabric / Health / Route Unhealthy",
    ),
    "pcie-errors": ("PCI / Replays Since Reset", "PCI / Fatal Errors", "PCI / Non Fatal Errors", "PCI / Bad TLPs"),
    "nvlink-errors": ("NVLink / Counted Links", "NVLink / Link 3 / dl_crc"),
    "clocks": tuple(key for key in LIVE if key.startswith("Clocks")),
    "persistence": ("Persistence Mode",),
    "recovery-action": ("GPU Recovery Action",),
}
REFUSES_ANY_OTHER_WORD = ("Fabric / State", "Fabric / Status", "GPU Recovery Action")
"""Of which one word alone is well: another one refuses, also one that nobody knows yet."""


def gpus() -> tuple[GpuPath, ...]:
    path = captured()
    assert not isinstance(path.gpus, Unknown)
    return tuple(replace(gpu, facts={**gpu.facts, **LIVE}) for gpu in path.gpus)


def odd(key: str, word: str | None) -> list[GpuPath]:
    """The node whose GPU 2 says this word, or nothing, of one fact."""
    found = list(gpus())
    facts = {name: value for name, value in found[2].facts.items() if name != key}
    found[2] = replace(found[2], facts=facts if word is None else {**facts, key: word})
    return found


def checks_of(found: Sequence[GpuPath]) -> list[Check]:
    return [*memory_checks(found), *link_checks(found), *pcie_checks(captured(), found, {}), *clock_checks(found, {})]


def test_a_node_that_tells_everything_passes() -> None:
    assert {check.state for check in checks_of(gpus())} == {CheckState.PASS}


@pytest.mark.parametrize("word", [None, *WORDS])
@pytest.mark.parametrize(("name", "key"), [(name, key) for name, keys in FACTS.items() for key in keys])
def test_a_fact_that_one_gpu_does_not_tell(name: str, key: str, word: str | None) -> None:
    if word is None and key == "NVLink / Link 3 / dl_crc":
        return  # counters that are zero are left out
    others = [check for check in checks_of(odd(key, word)) if check.name == name]
    bad = [check for check in others if check.state is not CheckState.PASS]
    refused = word == WORDS[-1] and key in REFUSES_ANY_OTHER_WORD
    assert [(check.state, check.subject) for check in bad] == [
        (CheckState.FAIL if refused else CheckState.UNKNOWN, "GPU 2 (0000:00:08.0)")
    ]


@pytest.mark.parametrize("word", [None, "N/A", "Unknown Error"])
def test_a_fabric_that_no_gpu_tells_of_is_unknown_where_links_lead_to_a_switch(word: str | None) -> None:
    said = {} if word is None else {"Fabric / State": word, "Fabric / Status": word}
    silent = [
        replace(gpu, facts={**{key: value for key, value in gpu.facts.items() if "Fabric" not in key}, **said})
        for gpu in gpus()
    ]
    (found,) = [check for check in link_checks(silent) if check.name == "fabric"]
    assert (found.state, found.required) == (CheckState.UNKNOWN, True)
    older = [
        replace(gpu, model="NVIDIA A100-SXM4-80GB", links=gpu.links[:12])
        for gpu in silent
        if isinstance(gpu.links, tuple)
    ]
    assert [check.state for check in link_checks(older) if check.name == "fabric"] == (
        [CheckState.UNKNOWN] if word == "Unknown Error" else []
    ), "A100s are registered in no fabric"
    joined = [
        replace(gpu, links=tuple(replace(link, remote="gpu:1") for link in gpu.links))
        for gpu in silent
        if isinstance(gpu.links, tuple)
    ]
    assert [check.state for check in link_checks(joined) if check.name == "fabric"] == (
        [CheckState.UNKNOWN] if word == "Unknown Error" else []
    ), "GPUs that are joined directly have none"


@pytest.mark.parametrize("link", [Link(WHY, WHY, WHY, WHY), Link(5, WHY, 5, 16), Link(5, 16, 5, WHY), Link(0, 0, 0, 0)])
def test_a_slot_that_the_driver_does_not_tell(link: Link) -> None:
    found = list(gpus())
    found[2] = replace(found[2], pcie=link)
    states = {check.state for check in pcie_checks(captured(), found, {}) if check.name == "pcie-width"}
    assert states == {CheckState.PASS, CheckState.UNKNOWN}


def test_a_model_that_could_not_be_read_may_have_nvlinks() -> None:
    nameless = [replace(gpu, model=WHY, links=()) for gpu in gpus()]
    assert [check.state for check in link_checks(nameless) if check.name == "nvlinks"] == [CheckState.UNKNOWN]


@pytest.mark.parametrize("uuid", ["N/A", "", "Unknown Error"])
def test_a_gpu_without_a_uuid_does_not_answer(uuid: str) -> None:
    path = replace(captured(), gpus=(replace(gpus()[0], uuid=uuid),))
    assert [check.state for check in presence_checks(path)] == [CheckState.UNKNOWN]


@pytest.mark.parametrize("word", ["GPU requires reset", "[GPU requires reset]", "GPU is lost"])
def test_a_gpu_that_says_what_is_wrong_with_it_is_refused_for_that(word: str) -> None:
    path = replace(captured(), gpus=tuple(odd("Remapped Rows / Pending", word)))
    checks = presence_checks(path)
    assert decide_checks(checks).decision is Decision.FAIL
    assert word in next(check.statement for check in checks if check.state is CheckState.FAIL)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"state": None}, "ports"),
        ({"rate_gbps": None}, "ports"),
        ({"rate_gbps": 0.0}, "ports"),
        ({"counters": {}}, "port-errors"),
        ({"counters": {"symbol_error": 0}}, "port-errors"),
    ],
)
def test_what_one_port_does_not_tell(changes: dict[str, object], name: str) -> None:
    checks = port_checks(replace(QUIET, ports=(port("mlx5_0"), port("mlx5_1", **changes))))
    bad = [(check.name, check.state, check.subject) for check in checks if check.state is not CheckState.PASS]
    assert bad == [(name, CheckState.UNKNOWN, "mlx5_1 port 1")]


def test_a_nic_none_of_whose_ports_were_read() -> None:
    one = port_checks(replace(QUIET, ports=(port("mlx5_0"),)), devices=("mlx5_0", "mlx5_1"))
    assert [(check.subject, check.state) for check in one if check.name == "ports"] == [
        ("mlx5_0 port 1", CheckState.PASS),
        ("mlx5_1", CheckState.UNKNOWN),
    ]
    none = port_checks(replace(QUIET, ports=()))
    assert [(check.state, check.required) for check in none] == [(CheckState.UNKNOWN, True)]
    left_out = port_checks(replace(QUIET, ports=(port("mlx5_0"),)), settings={"NCCL_IB_HCA": "^mlx5"})
    assert [(check.state, check.statement) for check in left_out] == [
        (CheckState.WARN, "NCCL_IB_HCA=^mlx5 leaves out every port")
    ]


@pytest.mark.parametrize(
    ("address", "link"),
    [
        ("0000:18:00.0", Link(WHY, 16, 5, 16)),
        ("0000:18:00.0", Link(5, WHY, 5, 16)),
        (WHY, None),
        ("0000:99:00.0", None),
    ],
)
def test_a_nics_slot_that_could_not_be_read(address: str | Unknown, link: Link | None) -> None:
    nic = NicPath("mlx5_0", True, address, "MT4129", "28.39", "a088", 0, "ib0", ())
    device = PciNode(
        "0000:18:00.0", "pci0000:15", None, "0x020700", "0x15b3", "0x1021", 0, link or Link(5, 16, 5, 16), False
    )
    checks = pcie_checks(replace(captured(), nics=(nic,), pci=(device,)), gpus(), {})
    assert [check.state for check in checks if check.name == "nic-pcie"] == [CheckState.UNKNOWN]
