"""Hardware health by check: what refuses a node, what only warns, and that what cannot be read is never a pass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from admitted import captured
from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.hardware_clocks import clock_checks
from rankmuster.admission.hardware_links import expected_links, link_checks
from rankmuster.admission.hardware_memory import memory_checks, recovery_known
from rankmuster.admission.hardware_pcie import pcie_checks
from rankmuster.admission.presence import presence_checks
from rankmuster.model.admission import Check, CheckState
from rankmuster.model.node_path import GpuPath, Link, NicPath, NicPort, NodePath, NvLink, PciNode
from rankmuster.model.unknown import Unknown

WHY = Unknown("not asked")


def gpus() -> tuple[GpuPath, ...]:
    path = captured()
    assert not isinstance(path.gpus, Unknown)
    # No captured text tells the NVLinks' error counters; live they are read.
    return tuple(replace(gpu, facts={**gpu.facts, "NVLink / Counted Links": "18"}) for gpu in path.gpus)


def with_facts(**facts: str) -> tuple[GpuPath, ...]:
    """The node whose GPU 2 says otherwise; `__` in a name stands for " / ", `_` for a blank."""
    said = {key.replace("__", " / ").replace("_", " "): value for key, value in facts.items()}
    first, second, third, last = gpus()
    return first, second, replace(third, facts={**third.facts, **said}), last


def state_of(checks: list[Check], name: str) -> CheckState:
    """The worst state of a check: that of the part which is not well."""
    states = {check.state for check in checks if check.name == name}
    assert states, f"no check {name} among {[check.name for check in checks]}"
    return next(state for state in _WORST_FIRST if state in states)


def failing(checks: list[Check], name: str) -> Check:
    bad = [check for check in checks if check.name == name and check.state is not CheckState.PASS]
    return min(bad, key=lambda check: _WORST_FIRST.index(check.state))


_WORST_FIRST = (
    CheckState.HUNG,
    CheckState.FAIL,
    CheckState.ERROR,
    CheckState.WARN,
    CheckState.UNKNOWN,
    CheckState.PASS,
)


def test_a_healthy_node_passes_every_hardware_check() -> None:
    path = captured()
    checks = [*memory_checks(gpus()), *link_checks(gpus()), *pcie_checks(path, gpus(), {})]
    assert {check.state for check in checks} == {CheckState.PASS}
    assert (
        next(check.statement for check in checks if check.name == "nvlinks")
        == "all 18 NVLinks up, 478 GB/s a direction"
    )


@pytest.mark.parametrize(
    ("facts", "name", "state"),
    [
        ({"ECC_Errors__Volatile__DRAM_Uncorrectable": "1"}, "memory-errors", CheckState.FAIL),
        ({"ECC_Errors__Volatile__SRAM_Uncorrectable_Parity": "2"}, "memory-errors", CheckState.FAIL),
        ({"ECC_Errors__Aggregate__DRAM_Uncorrectable": "1"}, "memory-errors", CheckState.WARN),
        ({"ECC_Errors__Aggregate__SRAM_Threshold_Exceeded": "Yes"}, "memory-errors", CheckState.FAIL),
        ({"ECC_Errors__Channel_Repair_Pending": "Yes"}, "memory-errors", CheckState.FAIL),
        ({"ECC_Errors__Volatile__DRAM_Correctable": "900"}, "memory-errors", CheckState.PASS),
        ({"Remapped_Rows__Pending": "Yes"}, "remapped-rows", CheckState.FAIL),
        ({"Remapped_Rows__Remapping_Failure_Occurred": "Yes"}, "remapped-rows", CheckState.FAIL),
        ({"Remapped_Rows__Uncorrectable_Error": "3"}, "remapped-rows", CheckState.PASS),
        (
            {"Remapped_Rows__Bank_Remap_Availability_Histogram__None": "1 bank(s)"},
            "remapped-rows",
            CheckState.WARN,
        ),
        ({"GPU_Recovery_Action": "GPU Reset Required"}, "recovery-action", CheckState.FAIL),
        ({"GPU_Recovery_Action": "Node Reboot Required"}, "recovery-action", CheckState.FAIL),
        ({"GPU_Recovery_Action": "N/A"}, "recovery-action", CheckState.UNKNOWN),
    ],
)
def test_memory(facts: dict[str, str], name: str, state: CheckState) -> None:
    checks = memory_checks(with_facts(**facts))
    assert state_of(checks, name) is state
    if state in (CheckState.FAIL, CheckState.WARN):
        assert failing(checks, name).subject == "GPU 2 (0000:00:08.0)"
    if state is CheckState.FAIL:
        assert failing(checks, name).advice


def test_counters_of_older_drivers_count_too() -> None:
    old = {"ECC Errors / Volatile / Double Bit / Total": "4", "Retired Pages / Pending Page Blacklist": "Yes"}
    (gpu, *_) = gpus()
    checks = memory_checks([replace(gpu, facts=old)])
    assert state_of(checks, "memory-errors") is CheckState.FAIL
    assert state_of(checks, "remapped-rows") is CheckState.FAIL


def test_facts_of_the_xml_are_the_same() -> None:
    xml = {
        "ecc_errors / volatile / dram_uncorrectable": "1",
        "remapped_rows / remapped_row_pending": "Yes",
        "gpu_recovery_action": "None",
    }
    checks = memory_checks([replace(gpus()[0], facts=xml)])
    assert state_of(checks, "memory-errors") is CheckState.FAIL
    assert state_of(checks, "remapped-rows") is CheckState.FAIL
    assert state_of(checks, "recovery-action") is CheckState.PASS


def test_what_nothing_says_is_unknown_and_required() -> None:
    checks = memory_checks([replace(gpus()[0], facts={})])
    for name in ("memory-errors", "remapped-rows"):
        assert failing(checks, name).state is CheckState.UNKNOWN
        assert failing(checks, name).required
    assert not recovery_known([replace(gpus()[0], facts={})])
    assert recovery_known(gpus())
    assert not recovery_known(())


def links(*, state: str | Unknown = "active", speed: float | Unknown = 26.562, count: int = 18) -> tuple[NvLink, ...]:
    """Eighteen links, the last of which is as told."""
    whole = [NvLink(n, "active", 26.562, WHY, "switch") for n in range(count)]
    return (*whole[:-1], NvLink(count - 1, state, speed, WHY, "switch"))


@pytest.mark.parametrize(
    ("own", "state", "words"),
    [
        (links(state="inactive"), CheckState.FAIL, "NVLink 17 down: 17 of 18 are up"),
        (links(state="sleep"), CheckState.PASS, ""),
        (links(state="Inactive"), CheckState.FAIL, "NVLink 17 down"),
        (links(state="disabled"), CheckState.FAIL, "NVLink 17 down"),
        (links(state="off"), CheckState.FAIL, "NVLink 17 down"),
        (links(state="N/A"), CheckState.UNKNOWN, "the state of NVLink 17 could not be read"),
        (links(state=WHY), CheckState.UNKNOWN, "the state of NVLink 17 could not be read"),
        (links(state="sleep", speed=WHY), CheckState.PASS, ""),
        (links(speed=WHY), CheckState.UNKNOWN, "the speed of NVLink 17 could not be read"),
        (links(speed=0.0), CheckState.FAIL, "NVLink 17 down"),
        (links(speed=13.281), CheckState.FAIL, "slower than the others"),
        (links(count=17), CheckState.FAIL, "17 NVLinks where its model has 18"),
        ((), CheckState.FAIL, "0 NVLinks where its model has 18"),
        (Unknown("GPU 2 hangs"), CheckState.UNKNOWN, "could not be read (the GPU hangs)"),
    ],
)
def test_links(own: tuple[NvLink, ...] | Unknown, state: CheckState, words: str) -> None:
    first, second, third, last = gpus()
    checks = link_checks([first, second, replace(third, links=own), last])
    assert state_of(checks, "nvlinks") is state
    if words:
        assert words in failing(checks, "nvlinks").statement


@pytest.mark.parametrize(
    ("model", "speed", "state"),
    [
        ("NVIDIA H200", 13.281, CheckState.FAIL),
        ("NVIDIA H200", 26.562, CheckState.PASS),
        ("NVIDIA B200", 26.562, CheckState.FAIL),
        ("NVIDIA B200", 53.125, CheckState.PASS),
        ("NVIDIA X9000", 13.281, CheckState.PASS),
    ],
)
def test_links_that_are_all_slower_than_their_model(model: str, speed: float, state: CheckState) -> None:
    all_links = tuple(replace(link, speed_gbps=speed) for link in links())
    checks = link_checks([replace(gpu, model=model, links=all_links) for gpu in gpus()])
    assert state_of(checks, "nvlinks") is state
    if state is CheckState.FAIL:
        assert "slower than its model's are" in failing(checks, "nvlinks").statement


def test_links_of_a_model_that_nobody_knows_are_compared_with_its_siblings() -> None:
    some = [replace(gpu, model="NVIDIA X9000", links=links(count=6)) for gpu in gpus()[:3]]
    odd = replace(gpus()[3], model="NVIDIA X9000", links=links(count=5))
    assert "5 NVLinks where its siblings have 6" in failing(link_checks([*some, odd]), "nvlinks").statement


def test_gpus_without_nvlinks_have_no_check_of_them() -> None:
    plain = [replace(gpu, model="NVIDIA L40S", links=(), facts={}) for gpu in gpus()]
    assert link_checks(plain) == []


@pytest.mark.parametrize(
    ("model", "count"),
    [
        ("NVIDIA H200", 18),
        ("NVIDIA H100 80GB HBM3", 18),
        ("NVIDIA H200 NVL", None),
        ("NVIDIA H100 PCIe", None),
        ("NVIDIA A100-SXM4-80GB", 12),
        ("NVIDIA A100 80GB PCIe", None),
        ("Tesla V100-SXM2-16GB", 6),
        ("NVIDIA B200", 18),
        ("NVIDIA GB200", 18),
        ("NVIDIA L40S", None),
    ],
)
def test_links_that_a_model_has(model: str, count: int | None) -> None:
    assert expected_links(model) == count


@pytest.mark.parametrize(
    ("counter", "rising", "words"),
    [
        ("dl_recovery", CheckState.FAIL, "NVLink 3: dl_recovery rose while the benchmark ran (9)"),
        ("dl_crc", CheckState.WARN, "2 packets sent again on NVLink 3 while it ran"),
    ],
)
def test_link_errors_that_came_with_the_benchmark_and_old_ones(counter: str, rising: CheckState, words: str) -> None:
    key = f"NVLink / Link 3 / {counter}"
    old = tuple(replace(gpu, facts={**gpu.facts, key: "7"}) if gpu.index == 2 else gpu for gpu in gpus())
    assert failing(link_checks(old, old), "nvlink-errors").state is CheckState.WARN
    more = tuple(replace(gpu, facts={**gpu.facts, key: "9"}) if gpu.index == 2 else gpu for gpu in old)
    found = failing(link_checks(more, old), "nvlink-errors")
    assert (found.state, found.statement) == (rising, words)


def test_a_link_that_failed_to_recover_refuses_whenever_that_was() -> None:
    old = with_facts(NVLink__Link_3__failed_recoveries="1")
    assert failing(link_checks(old, old), "nvlink-errors").state is CheckState.FAIL


@pytest.mark.parametrize(
    ("facts", "state"),
    [
        ({"Fabric__State": "In Progress"}, CheckState.FAIL),
        ({"Fabric__Status": "error 7"}, CheckState.FAIL),
        ({"Fabric__Health__Summary": "Unhealthy"}, CheckState.FAIL),
        ({"Fabric__Health__Summary": "Limited Capacity"}, CheckState.WARN),
        ({"Fabric__Health__Bandwidth": "Degraded"}, CheckState.FAIL),
        ({"Fabric__Health_Mask": "0x1"}, CheckState.FAIL),
        ({"Fabric__Health_Mask": "0x10"}, CheckState.FAIL),
    ],
)
def test_fabric(facts: dict[str, str], state: CheckState) -> None:
    assert state_of(link_checks(with_facts(**facts)), "fabric") is state


@pytest.mark.parametrize(
    ("mask", "state"), [("0x2", CheckState.PASS), ("0x0", CheckState.PASS), ("?", CheckState.UNKNOWN)]
)
def test_a_fabric_whose_health_is_told(mask: str, state: CheckState) -> None:
    told = [
        replace(gpu, facts={**gpu.facts, "Fabric / Health Mask": mask if gpu.index == 2 else "0x2"}) for gpu in gpus()
    ]
    assert state_of(link_checks(told), "fabric") is state


def at(width: int, generation: int, most: int = 16, top: int = 5) -> Link:
    return Link(generation, width, top, most)


def with_pcie(link: Link) -> tuple[GpuPath, ...]:
    first, second, third, last = gpus()
    return first, second, replace(third, pcie=link), last


def test_pcie_that_trained_down() -> None:
    path = captured()
    narrow = pcie_checks(path, with_pcie(at(8, 5)), {})
    assert failing(narrow, "pcie-width").statement == "PCIe x8 where both ends can x16"
    assert failing(narrow, "pcie-width").state is CheckState.FAIL
    bifurcated = pcie_checks(path, with_pcie(at(8, 5, most=8)), {})
    assert failing(bifurcated, "pcie-width").statement == "PCIe x8 where its siblings have x16"
    unread = pcie_checks(path, with_pcie(Link(WHY, WHY, WHY, WHY)), {})
    assert failing(unread, "pcie-width").state is CheckState.UNKNOWN


def test_the_generation_counts_under_load_only() -> None:
    path, slow = captured(), with_pcie(at(16, 1))
    assert failing(pcie_checks(path, slow, {}), "pcie-generation").state is CheckState.UNKNOWN
    busy = {2: UnderLoad(pcie_generation=5, pcie_width=16, samples=3)}
    assert state_of(pcie_checks(path, slow, busy), "pcie-generation") is CheckState.PASS
    stuck = {2: UnderLoad(pcie_generation=3, pcie_width=16, samples=3)}
    found = failing(pcie_checks(path, slow, stuck), "pcie-generation")
    assert (found.state, found.statement) == (CheckState.FAIL, "PCIe generation 3 under load where both ends can 5")


@pytest.mark.parametrize(
    ("facts", "before", "state"),
    [
        ({"PCI__Replays_Since_Reset": "3"}, {}, CheckState.PASS),
        ({"PCI__Replays_Since_Reset": "5000"}, {}, CheckState.WARN),
        ({"PCI__Replays_Since_Reset": "3"}, {"PCI__Replays_Since_Reset": "1"}, CheckState.WARN),
        ({"PCI__Fatal_Errors": "1"}, {}, CheckState.FAIL),
        ({"PCI__Non_Fatal_Errors": "1"}, {}, CheckState.WARN),
    ],
)
def test_pcie_errors(facts: dict[str, str], before: dict[str, str], state: CheckState) -> None:
    earlier = with_facts(**before) if before else ()
    assert state_of(pcie_checks(captured(), with_facts(**facts), {}, earlier), "pcie-errors") is state


def test_a_nic_in_a_narrow_slot() -> None:
    port = NicPort(1, "PORT_ACTIVE", "InfiniBand", 400.0, 4096, ())
    nic = NicPath("mlx5_0", True, "0000:18:00.0", "MT4129", "28.39.1002", "a088", 0, "ib0", (port,))
    device = PciNode("0000:18:00.0", "pci0000:15", None, "0x020700", "0x15b3", "0x1021", 0, at(8, 5), False)
    path = replace(captured(), nics=(nic,), pci=(device,))
    assert failing(pcie_checks(path, gpus(), {}), "nic-pcie").statement == "PCIe x8 where it can x16"


@pytest.mark.parametrize(
    ("reasons", "state"),
    [
        (0x0, CheckState.PASS),
        (0x4, CheckState.PASS),  # a power cap is how a GPU works at full load
        (0x8, CheckState.FAIL),
        (0x40, CheckState.FAIL),
        (0x80, CheckState.FAIL),
        (0x20, CheckState.WARN),
    ],
)
def test_clocks_under_load(reasons: int, state: CheckState) -> None:
    load = {gpu.index: UnderLoad(clock_reasons=reasons if gpu.index == 2 else 0x4, samples=5) for gpu in gpus()}
    assert state_of(clock_checks(gpus(), load), "clocks") is state


HW_THERMAL = "Clocks Event Reasons / HW Slowdown / HW Thermal Slowdown"
COOL = {
    "Clocks Event Reasons / HW Slowdown": "Not Active",
    HW_THERMAL: "Not Active",
    "Clocks Event Reasons / HW Slowdown / HW Power Brake Slowdown": "Not Active",
    "Clocks Event Reasons / SW Thermal Slowdown": "Not Active",
}


def test_clocks_by_the_words_of_nvidia_smi() -> None:
    (gpu, *_) = gpus()
    hot = replace(gpu, facts={**gpu.facts, **COOL, HW_THERMAL: "Active"})
    assert failing(clock_checks([hot], {}), "clocks").statement == "clocks held back: HW thermal slowdown"
    warm = replace(gpu, facts={**gpu.facts, **COOL, "Clocks Event Reasons / SW Thermal Slowdown": "Active"})
    assert state_of(clock_checks([warm], {}), "clocks") is CheckState.WARN
    cool = replace(gpu, facts={**gpu.facts, **COOL})
    assert state_of(clock_checks([cool], {}), "clocks") is CheckState.PASS
    assert state_of(clock_checks([gpu], {}), "clocks") is CheckState.UNKNOWN
    xml = {
        f"clocks_event_reasons / clocks_event_reason_{key.rpartition(' / ')[2].lower()}": "Not Active" for key in COOL
    }
    assert state_of(clock_checks([replace(gpu, facts=xml)], {}), "clocks") is CheckState.PASS


def test_a_gpu_that_nobody_saw_at_work_is_not_told_to_be_well_under_load() -> None:
    seen = {gpu.index: UnderLoad(clock_reasons=0x4, samples=5) for gpu in gpus() if gpu.index != 2}
    found = failing(clock_checks(gpus(), seen), "clocks")
    assert (found.state, found.subject) == (CheckState.UNKNOWN, "GPU 2 (0000:00:08.0)")


def test_persistence_off_warns() -> None:
    assert state_of(clock_checks(with_facts(Persistence_Mode="Disabled"), {}), "persistence") is CheckState.WARN


@pytest.mark.parametrize(
    ("found", "state"),
    [
        ((), CheckState.ERROR),
        (Unknown("NVML: the Python package is not installed"), CheckState.ERROR),
        (Unknown("NVML: it gave no answer in time; the driver blocks"), CheckState.HUNG),
    ],
)
def test_a_machine_without_gpus_is_an_error_and_a_blocked_driver_hangs(
    found: tuple[GpuPath, ...] | Unknown, state: CheckState
) -> None:
    (check,) = presence_checks(replace(captured(), gpus=found))
    assert (check.state, check.required) == (state, True)


def test_gpus_that_are_lost_or_hang() -> None:
    first, second, third, last = gpus()
    path: NodePath = replace(captured(), gpus=(first, replace(second, facts={"error": "GPU is lost"}), third, last))
    assert failing(presence_checks(path), "gpus").state is CheckState.FAIL
    hangs = replace(third, uuid=Unknown("GPU 2 has not answered nvmlInit for 6 s: the driver blocks"))
    assert failing(presence_checks(replace(path, gpus=(first, hangs))), "gpus").state is CheckState.HUNG
    later = replace(third, links=Unknown("GPU 2 has not answered nvmlDeviceGetNvLinkState for 6 s: the driver blocks"))
    assert failing(presence_checks(replace(path, gpus=(first, later))), "gpus").state is CheckState.HUNG


def test_a_fingerprint_alone_leaves_the_gpus_unknown() -> None:
    (check,) = presence_checks(None)
    assert (check.state, check.required) == (CheckState.UNKNOWN, True)


def test_the_same_trouble_of_many_is_said_once() -> None:
    everywhere = [replace(gpu, facts={**gpu.facts, "Remapped Rows / Pending": "Yes"}) for gpu in gpus()]
    found = [check for check in memory_checks(everywhere) if check.name == "remapped-rows"]
    assert len(found) == 1
    assert all(f"GPU {number}" in found[0].subject for number in range(4))
