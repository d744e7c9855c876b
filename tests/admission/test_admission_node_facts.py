"""Facts of a machine: its kernel log, its ports and what NVML says under load, over real files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.live import environment_of
from rankmuster.admission.load_watch import LoadWatch
from rankmuster.admission.measuring import measure
from rankmuster.admission.node_facts import KERNEL_BYTES, KernelLog, given_log, kernel_log, node_facts, ports
from rankmuster.bench.profiles import named
from rankmuster.bench.tool import How, Tool
from rankmuster.collect.machine import Machine
from rankmuster.model.benchmark import RunState
from rankmuster.model.kernel import Xid
from rankmuster.model.unknown import Unknown


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine of files: two RDMA ports, two interfaces, and a kernel ring."""
    for device, rate in (("mlx5_0", "400 Gb/sec (4X NDR)"), ("mlx5_1", "200 Gb/sec (2X NDR)")):
        port = tmp_path / "sys/class/infiniband" / device / "ports/1"
        (port / "counters").mkdir(parents=True)
        for name, text in (
            ("state", "4: ACTIVE"),
            ("phys_state", "5: LinkUp"),
            ("rate", rate),
            ("link_layer", "InfiniBand"),
            ("counters/link_downed", "2"),
            ("counters/symbol_error", "0"),
        ):
            (port / name).write_text(text + "\n")
    for interface, changes in (("eth0", 2), ("eth1", 40)):
        folder = tmp_path / "sys/class/net" / interface
        (folder / "statistics").mkdir(parents=True)
        (folder / "statistics/rx_bytes").write_text("1\n")
        (folder / "carrier_changes").write_text(f"{changes}\n")
        (folder / "operstate").write_text("up\n")
    (tmp_path / "dev").mkdir()
    return Machine(hostname="node7", sys=tmp_path / "sys", dev=tmp_path / "dev", proc=tmp_path / "proc")


def ring(machine: Machine, *records: str) -> None:
    (machine.dev / "kmsg").write_text("".join(f"{line}\n" for line in records))


def test_the_ring_is_read_and_known_to_go_back_to_the_boot(machine: Machine) -> None:
    ring(
        machine,
        "6,1,0,-;Linux version 6.8.0",
        "3,2,5000000,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.",
    )
    found = kernel_log(machine, boot=1_796_000_000.0)
    assert isinstance(found, KernelLog)
    assert found.whole
    assert b"Xid (PCI:0000:9b:00): 79" in found.data


def test_a_ring_that_was_overwritten_is_not_whole(machine: Machine) -> None:
    ring(machine, "6,90000,864000000000,-;eth0: link up")
    found = kernel_log(machine, boot=1_796_000_000.0)
    assert isinstance(found, KernelLog)
    assert not found.whole


def test_a_kernel_log_given_as_a_file_is_taken_for_it(machine: Machine, tmp_path: Path) -> None:
    log = tmp_path / "saved.txt"
    log.write_text("Nov 30 09:00:00 node7 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n")
    facts = node_facts(machine, boot=0.0, log=given_log(log), before=ports(machine), load={}, dcgm_level=0)
    assert isinstance(facts.kernel, tuple)
    assert [each.code for each in facts.kernel if isinstance(each, Xid)] == [79]
    assert facts.dcgm is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "is empty"),
        ("dmesg: read kernel buffer failed: Operation not permitted\n", "Operation not permitted"),
        ("-- No entries --\n", "no kernel log"),
    ],
)
def test_a_file_that_is_no_kernel_log_is_unknown(machine: Machine, tmp_path: Path, text: str, words: str) -> None:
    log = tmp_path / "saved.txt"
    log.write_text(text)
    facts = node_facts(machine, boot=0.0, log=given_log(log), before=ports(machine), load={}, dcgm_level=0)
    assert isinstance(facts.kernel, Unknown)
    assert words in facts.kernel.reason
    assert not facts.kernel_whole


def test_a_command_that_shows_a_part_of_the_boot_is_not_whole(machine: Machine, tmp_path: Path) -> None:
    """As journalctl does that keeps 20,000 lines, and dmesg whose ring was overwritten."""
    part, whole = tmp_path / "part", tmp_path / "whole"
    part.write_text("#!/bin/sh\necho '2026-11-30T09:00:00+00:00 node7 kernel: eth0: link up'\n")
    whole.write_text("#!/bin/sh\necho '2026-11-30T09:00:00+00:00 node7 kernel: Linux version 6.8.0'\n")
    for program, goes_back in ((part, False), (whole, True)):
        program.chmod(0o755)
        given = kernel_log(machine, 0.0, commands=((str(program),),))
        assert isinstance(given, KernelLog)
        log = tmp_path / "kept.txt"
        log.write_bytes(given.data)
        facts = node_facts(machine, boot=0.0, log=given_log(log), before=ports(machine), load={}, dcgm_level=0)
        assert facts.kernel_whole is goes_back
        assert facts.kernel == ()


def test_of_a_file_that_is_too_large_the_newest_lines_count_and_the_log_is_not_whole(
    machine: Machine, tmp_path: Path
) -> None:
    log = tmp_path / "saved.txt"
    with log.open("wb") as file:
        file.seek(KERNEL_BYTES)  # a hole: nothing is written
        file.write(b"\nNov 30 09:00:00 node7 kernel: NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n")
    facts = node_facts(machine, boot=0.0, log=given_log(log), before=ports(machine), load={}, dcgm_level=0)
    assert isinstance(facts.kernel, tuple)
    assert [each.code for each in facts.kernel if isinstance(each, Xid)] == [79]
    assert not facts.kernel_whole


def test_ports_are_read_with_counters_and_carriers(machine: Machine) -> None:
    found = ports(machine)
    assert isinstance(found.ports, tuple)
    assert [(port.device, port.rate_gbps, port.counters["link_downed"]) for port in found.ports] == [
        ("mlx5_0", 400.0, 2),
        ("mlx5_1", 200.0, 2),
    ]
    assert found.carriers == {"eth0": 2, "eth1": 40}


def test_counters_before_are_kept_to_tell_new_errors(machine: Machine, tmp_path: Path) -> None:
    before = ports(machine)
    (machine.sys / "class/infiniband/mlx5_0/ports/1/counters/link_downed").write_text("3\n")
    ring(machine, "6,1,0,-;Linux version 6.8.0")
    facts = node_facts(machine, boot=0.0, log=None, before=before, load={}, dcgm_level=0)
    assert facts.ports_before[0].counters["link_downed"] == 2
    assert isinstance(facts.ports, tuple)
    assert facts.ports[0].counters["link_downed"] == 3


def test_a_machine_without_rdma_has_no_ports(tmp_path: Path) -> None:
    found = ports(Machine(sys=tmp_path))
    assert (found.ports, found.carriers) == ((), {})


def test_what_the_child_says_under_load_is_put_together() -> None:
    watch = LoadWatch()
    facts = {
        "PCI / GPU Link Info / PCIe Generation / Current": "1",
        "PCI / GPU Link Info / Link Width / Current": "16x",
    }
    watch.take({"kind": "gpu", "gpu": 0, "facts": facts})
    watch.take({"kind": "sample", "gpu": 0, "sm_util_percent": 0, "clock_event_reasons": 0x8})
    watch.take({"kind": "gpu", "gpu": 0, "facts": {**facts, "PCI / GPU Link Info / PCIe Generation / Current": "5"}})
    watch.take({"kind": "sample", "gpu": 0, "sm_util_percent": 100, "clock_event_reasons": 0x4})
    watch.take({"kind": "sample", "gpu": 0, "sm_util_percent": 100, "clock_event_reasons": 0x40})
    watch.take({"kind": "driver", "count": 1})
    watch.take({"kind": "sample", "gpu": "odd"})
    assert watch.seen() == {0: UnderLoad(5, 16, 0x44, (), 2)}, "an idle GPU's reasons say nothing"


def test_watching_ends_with_the_benchmark_and_never_raises() -> None:
    watch = LoadWatch(looks=(0.0,))
    with watch.watching():
        pass
    assert isinstance(watch.seen(), dict)


def test_a_benchmark_that_cannot_start_is_a_run_that_says_so(tmp_path: Path) -> None:
    how = How(Tool.NCCL_TESTS, None, {}, {"PATH": str(tmp_path)}, 5.0, folder=tmp_path)
    run = measure(named("links"), 0, how, LoadWatch(looks=()))
    assert run.state is RunState.ERROR
    assert run.reason


def test_a_shells_nccl_values_reach_neither_benchmark_nor_fingerprint() -> None:
    shell = {"PATH": "/bin", "NCCL_ALGO": "Ring", "HOME": "/root"}
    assert environment_of(shell, {"NCCL_PROTO": "LL"}) == {"PATH": "/bin", "HOME": "/root", "NCCL_PROTO": "LL"}


def test_a_safeguard_that_the_benchmark_keeps_is_in_the_fingerprint_too() -> None:
    shell = {"PATH": "/bin", "NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Ring"}
    assert environment_of(shell, {}) == {"PATH": "/bin", "NCCL_NVLS_ENABLE": "0"}
    assert environment_of(shell, {"NCCL_NVLS_ENABLE": "1"})["NCCL_NVLS_ENABLE"] == "1"


def test_an_unreadable_kernel_log_is_unknown_with_what_was_tried(tmp_path: Path) -> None:
    found = kernel_log(replace(Machine(), dev=tmp_path), boot=0.0, commands=(("false",),))
    assert isinstance(found, Unknown)
    assert "kmsg gives nothing" in found.reason
    assert "false ended with status 1" in found.reason
