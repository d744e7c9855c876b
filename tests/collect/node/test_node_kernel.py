"""The kernel log from where it may be read, with a remedy where it may not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from node_bench import HOST, Bench

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import kmsg
from rankmuster.collect.node.kernel import Kernel
from rankmuster.collect.outcome import Ending
from rankmuster.evidence.bundle import load
from rankmuster.model.kernel import KernelEvent, ServiceEvent, Xid
from rankmuster.model.stamp import StampKind

RECORDS = (
    "6,1,1000000,-;Linux version 6.8.0\n"
    "6,2,1000100,-;Command line: root=/dev/sda token=hunter2 iommu=pt quiet pci=realloc\n"
    "3,3,5000000,-;NVRM: Xid (PCI:0000:9b:00): 79, GPU has fallen off the bus.\n"
    " SUBSYSTEM=pci\n DEVICE=+pci:0000:9b:00.0\n"
    "4,4,6000000,c;mlx5_core 0000:ca:00.0 eth2: Link down\n"
    "broken record\n"
    "6,5,7000000,-;a name with \\x0aescaped \\xff bytes\n"
)
QUIET = Kernel(commands=(), journal=())


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "dev").mkdir()
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "uptime").write_text("100.50 1.0\n")
    return Machine(HOST, tmp_path / "proc", tmp_path / "sys", tmp_path / "dev", tmp_path / "etc", tmp_path / "run")


def test_records_become_lines_with_wall_clock_time(bench: Bench, machine: Machine):
    (machine.dev / "kmsg").write_text(RECORDS)
    outcome = bench.collect(QUIET, machine=machine)
    assert outcome.ending is Ending.DONE, outcome
    evidence = load(bench.folder)
    assert not evidence.problems
    (xid,) = evidence.of(Xid)
    assert (xid.code, xid.bus_id, xid.origin.host) == (79, "0000:9b:00", HOST)
    stamp = xid.origin.stamp
    assert stamp is not None
    assert stamp.kind is StampKind.UNIX
    look_time = bench.store.pieces()[0].look_time
    assert look_time is not None
    assert stamp.seconds == pytest.approx(look_time - 95.5, abs=2)
    (event,) = evidence.of(KernelEvent)
    assert event.device == "0000:ca:00"
    assert "escaped" in bench.text("kernel/dmesg.txt")


def test_the_command_line_is_cut_to_what_bears_on_devices(bench: Bench, machine: Machine):
    (machine.dev / "kmsg").write_text(RECORDS)
    bench.collect(QUIET, machine=machine)
    text = bench.text("kernel/dmesg.txt")
    assert "hunter2" not in text
    assert "Command line: iommu=pt pci=realloc\n" in text


def test_what_init_was_started_with_is_left_out():
    log = b"t h kernel:   with environment:\nt h kernel:     HOME=/\nt h kernel:     TOKEN=hunter2\nt h kernel: next\n"
    assert kmsg.public(log) == b"t h kernel:   with environment:\nt h kernel: next\n"


def test_a_quiet_log_is_read_although_it_says_nothing(bench: Bench, machine: Machine):
    (machine.dev / "kmsg").write_text("6,1,1000000,-;Linux version 6.8.0\n")
    bench.collect(QUIET, machine=machine)
    assert not load(bench.folder).problems


def test_the_last_of_a_long_log_is_kept(bench: Bench, machine: Machine):
    (machine.dev / "kmsg").write_text("".join(f"6,{n},{n}000000,-;line {n} of many\n" for n in range(5000)))
    outcome = bench.collect(QUIET, machine=machine, max_log_bytes=1000)
    assert "the oldest left out" in outcome.note
    text = bench.text("kernel/dmesg.txt")
    assert "line 4999 of" in text
    assert "line 1 of" not in text


def test_a_pipe_in_its_place_holds_up_nobody(machine: Machine):
    os.mkfifo(machine.dev / "kmsg")
    assert kmsg.read(machine.dev / "kmsg", Deadline.after(5), 1000).lines == ()


def test_where_nothing_is_there_nothing_is_said(bench: Bench, machine: Machine):
    outcome = bench.collect(QUIET, machine=machine)
    assert outcome.ending is Ending.NOTHING
    assert bench.files == []


def test_who_may_not_read_it_is_told_what_to_do(bench: Bench, machine: Machine, tmp_path: Path):
    tool = tmp_path / "dmesg"
    tool.write_text("#!/bin/sh\necho 'dmesg: read kernel buffer failed: Operation not permitted' >&2\nexit 1\n")
    tool.chmod(0o755)
    outcome = bench.collect(Kernel(commands=((str(tool),),), journal=()), machine=machine)
    assert outcome.ending is Ending.DENIED
    assert "CAP_SYSLOG" in outcome.note


def test_a_tool_takes_over_where_there_is_no_device(bench: Bench, machine: Machine, tmp_path: Path):
    tool = tmp_path / "dmesg"
    line = "2026-11-29T21:07:56,123456+00:00 NVRM: Xid (PCI:0000:01:00): 31, pid=5, name=x, Ch 1"
    tool.write_text(f"#!/bin/sh\necho '{line}'\n")
    tool.chmod(0o755)
    assert bench.collect(Kernel(commands=((str(tool),),), journal=()), machine=machine).ending is Ending.DONE
    assert [xid.code for xid in load(bench.folder).of(Xid)] == [31]


def test_logs_of_services_are_taken_too(bench: Bench, machine: Machine, tmp_path: Path):
    log = tmp_path / "var" / "log" / "fabricmanager.log"
    log.parent.mkdir(parents=True)
    log.write_text("[Feb 27 2025 15:10:02] [ERROR] [tid 1] failed to find the GPU handle 3 in the multicast team\n")
    tool = tmp_path / "journalctl"
    said = "2026-11-29T21:07:56.123456+00:00 node-a1 systemd[1]: Stopped nvidia-fabricmanager.service."
    tool.write_text(f"#!/bin/sh\necho '-- No entries --'; echo '{said}'\n")
    tool.chmod(0o755)
    outcome = bench.collect(Kernel(commands=(), journal=(str(tool),)), machine=machine)
    assert outcome.ending is Ending.PARTIAL
    evidence = load(bench.folder)
    assert not evidence.problems
    assert len(evidence.of(ServiceEvent)) == 2


@pytest.mark.parametrize("data", [b"", b"\xff\xfe;\n", b";" * 100_000, b"1,2,3,-;", b"9" * 20_000 + b"\n", b"\n\n\n"])
def test_garbage_is_no_log(machine: Machine, data: bytes):
    (machine.dev / "kmsg").write_bytes(data)
    assert kmsg.read(machine.dev / "kmsg", Deadline.after(5), 1000).lines == ()


def test_this_machine_as_it_is(bench: Bench):
    outcome = bench.collect(Kernel(), machine=Machine(hostname=HOST))
    assert outcome.ending in (Ending.DONE, Ending.PARTIAL, Ending.NOTHING, Ending.DENIED, Ending.FAILED)
    assert not load(bench.folder).problems if bench.files else True
