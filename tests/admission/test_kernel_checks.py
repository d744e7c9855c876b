"""The kernel log since boot: which Xids and SXids refuse, which are said, which are consequences of others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from admitted import QUIET, captured
from rankmuster.admission.hardware_kernel import CORRECTED_STORM, kernel_checks
from rankmuster.admission.node_facts import kernel_events
from rankmuster.model.admission import Check, CheckState
from rankmuster.model.node_path import GpuPath
from rankmuster.model.unknown import Unknown


def gpus() -> tuple[GpuPath, ...]:
    path = captured()
    assert not isinstance(path.gpus, Unknown)
    return path.gpus


def checks_of(*lines: str, whole: bool = True, known: Sequence[GpuPath] | None = None) -> list[Check]:
    stamped = [
        f"2026-11-30T09:{number:02d}:00.000000+00:00 node7 kernel: {line}\n" for number, line in enumerate(lines)
    ]
    devices, services = kernel_events("".join(stamped).encode(), "dmesg.txt")
    facts = replace(QUIET, kernel=devices, services=services, kernel_whole=whole)
    return kernel_checks(facts, gpus() if known is None else known)


def xid(code: int, text: str = "", bus: str = "0000:00:08") -> str:
    return f"NVRM: Xid (PCI:{bus}): {code}, {text or 'pid=77, name=python3, something'}"


def named(checks: Sequence[Check], name: str) -> list[Check]:
    return [check for check in checks if check.name == name]


@pytest.mark.parametrize(
    "code", [46, 62, 64, 74, 79, 95, 109, 119, 120, 136, 140, 143, 155, 156, 158, 48, 54, 168, 173]
)
def test_what_leaves_the_gpu_broken_refuses(code: int) -> None:
    (found,) = named(checks_of(xid(code)), "xid")
    assert found.state is CheckState.FAIL
    assert found.subject == "GPU 2 (0000:00:08.0)"
    assert f"Xid {code}" in found.statement
    assert found.evidence == ("dmesg.txt#L1",)
    assert found.required


@pytest.mark.parametrize("code", [8, 13, 31, 32, 43, 45, 63, 69, 92, 94, 121, 999])
def test_what_one_program_did_or_what_was_repaired_is_only_said(code: int) -> None:
    found = named(checks_of(xid(code)), "xid")
    assert [check.state for check in found] == [CheckState.PASS, CheckState.WARN]


@pytest.mark.parametrize("code", [162, 165])
def test_information_is_no_fault(code: int) -> None:
    assert [check.state for check in named(checks_of(xid(code)), "xid")] == [CheckState.PASS]


def test_consequences_refuse_nobody() -> None:
    found = named(checks_of(xid(13), xid(43), xid(45), xid(154, "GPU recovery action changed from 0x0 (None)")), "xid")
    assert [check.state for check in found] == [CheckState.PASS, CheckState.WARN]
    assert "Xid 13" in found[1].statement
    assert "Xid 43" not in found[1].statement


def recovery(action: str, before: str = "None") -> str:
    return xid(154, f"GPU recovery action changed from 0x0 ({before}) to 0x1 ({action})")


@pytest.mark.parametrize(
    "action",
    [
        "GPU Reset Required",
        "Node Reboot Required",
        "Drain P2P",
        "Drain and Reset",
        "Recover IMEX Domain",
        "An Action Of Next Year",
    ],
)
def test_what_the_driver_asks_for_refuses_by_its_own_words(action: str) -> None:
    (found,) = named(checks_of(recovery(action)), "xid")
    assert found.state is CheckState.FAIL
    assert f"Xid 154 (GPU recovery action changed: {action})" in found.statement
    assert found.evidence == ("dmesg.txt#L1",)


def test_a_driver_that_asks_for_nothing_any_more_refuses_nobody() -> None:
    assert [check.state for check in named(checks_of(recovery("None")), "xid")] == [CheckState.PASS]
    after = named(checks_of(recovery("GPU Reset Required"), recovery("None", "GPU Reset Required")), "xid")
    assert [check.state for check in after] == [CheckState.PASS]
    again = named(checks_of(recovery("None"), recovery("GPU Reset Required")), "xid")
    assert [check.state for check in again] == [CheckState.FAIL]
    still = named(checks_of(xid(79), recovery("GPU Reset Required"), recovery("None", "GPU Reset Required")), "xid")
    assert [check.state for check in still] == [CheckState.FAIL], "until the node is rebooted"


def test_an_uncorrectable_error_that_was_contained_is_said_and_an_uncontained_one_refuses() -> None:
    contained = named(checks_of(xid(48), xid(94, "Contained: SM (0x1). RST: No, D-RST: No")), "xid")
    assert [check.state for check in contained] == [CheckState.PASS, CheckState.WARN]
    uncontained = named(checks_of(xid(48), xid(95, "Uncontained: LTC TAG (0x2). RST: Yes, D-RST: No")), "xid")
    assert uncontained[0].state is CheckState.FAIL


def test_a_quiet_log_is_a_pass_and_an_unread_one_is_not() -> None:
    assert named(checks_of(), "xid")[0].state is CheckState.PASS
    unread = replace(QUIET, kernel=Unknown("/dev/kmsg: Operation not permitted"))
    (found,) = named(kernel_checks(unread, gpus()), "xid")
    assert found.state is CheckState.UNKNOWN
    assert "Operation not permitted" in found.statement
    assert "--kernel-log" in found.advice


def test_the_drivers_recovery_action_stands_in_for_a_log_that_cannot_be_read() -> None:
    """A refusing Xid would have changed it: then the log is no longer required for a pass."""
    unread = replace(QUIET, kernel=Unknown("denied"))
    assert not named(kernel_checks(unread, gpus()), "xid")[0].required
    silent = [replace(gpu, facts={}) for gpu in gpus()]
    assert named(kernel_checks(unread, silent), "xid")[0].required


def test_a_log_whose_beginning_is_gone_is_no_clean_bill() -> None:
    silent = [replace(gpu, facts={}) for gpu in gpus()]
    (alone,) = named(checks_of(whole=False, known=silent), "xid")
    assert (alone.state, alone.required) == (CheckState.UNKNOWN, True)
    (told,) = named(checks_of(whole=False), "xid")
    assert (told.state, told.required) == (CheckState.UNKNOWN, False), "the driver's recovery action stands in for it"
    assert named(checks_of(xid(79), whole=False), "xid")[0].state is CheckState.FAIL


@pytest.mark.parametrize(
    ("line", "state"),
    [
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error", "fail"),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", "fail"),
        ("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 20001, Non-fatal, Link 30 TX Replay Error", "warn"),
    ],
)
def test_nvswitch_errors(line: str, state: str) -> None:
    (found,) = named(checks_of(line), "sxid")
    assert found.state.value == state


def test_a_harmless_nvswitch_error_is_not_even_said() -> None:
    assert named(checks_of("nvidia-nvswitch3: SXid (PCI:0000:05:00.0): 22013, Non-fatal, Link 30 minion"), "sxid") == []


@pytest.mark.parametrize(
    ("line", "name", "state"),
    [
        ("NVRM: GPU 0000:00:08.0: RmInitAdapter failed! (0x26:0x56:1474)", "gpu-init", "fail"),
        ("{1}[Hardware Error]: event severity: fatal", "machine-check", "fail"),
        ("{1}[Hardware Error]: event severity: corrected", "machine-check", "warn"),
        ("mlx5_core 0000:18:00.0: device's health compromised - reached miss count", "nic-error", "fail"),
        ("INFO: task python3:77 blocked for more than 120 seconds.", "hung-task", "warn"),
        (
            "DMAR: [DMA Read NO_PASID] Request device [00:08.0] fault addr 0xff000 [fault reason 0x06]",
            "iommu-fault",
            "fail",
        ),
        (
            "DMAR: [DMA Read NO_PASID] Request device [9b:00.0] fault addr 0xff000 [fault reason 0x06]",
            "iommu-fault",
            "warn",
        ),
        ("pcieport 0000:00:1c.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link", "aer", "fail"),
    ],
)
def test_other_lines(line: str, name: str, state: str) -> None:
    (found,) = named(checks_of(line), name)
    assert found.state.value == state


def test_corrected_pcie_errors_are_worth_a_word_from_a_storm_on() -> None:
    line = "pcieport 0000:00:1c.1: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)"
    assert named(checks_of(*[line] * 20), "aer") == []
    (found,) = named(checks_of(*[line] * CORRECTED_STORM), "aer")
    assert found.state is CheckState.WARN
    assert f"{CORRECTED_STORM} corrected PCIe errors" in found.statement


def test_a_flapping_link_is_said() -> None:
    line = "mlx5_core 0000:18:00.0 eth0: Link down"
    assert named(checks_of(line), "link-down") == []
    assert named(checks_of(*[line] * 3), "link-down")[0].state is CheckState.WARN


@pytest.mark.parametrize(
    ("lines", "state"),
    [
        (["Started nvidia-fabricmanager.service - NVIDIA fabric manager service."], "pass"),
        (
            [
                "Started nvidia-fabricmanager.service - NVIDIA fabric manager service.",
                "nvidia-fabricmanager.service: Failed with result 'exit-code'.",
            ],
            "fail",
        ),
    ],
)
def test_the_fabric_manager_as_its_journal_tells_it(lines: list[str], state: str) -> None:
    journal = "".join(f"2026-11-30T09:00:0{n}+00:00 node7 systemd[1]: {line}\n" for n, line in enumerate(lines))
    facts = replace(QUIET, services=kernel_events(journal.encode(), "journal")[1])
    (found,) = named(kernel_checks(facts, gpus()), "fabric-manager")
    assert found.state.value == state
