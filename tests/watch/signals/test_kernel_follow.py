"""The kernel log as it comes: from a ring that is a file here, and from what a syslog daemon writes."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from log_target import observations, polled

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.model.kernel import Xid
from rankmuster.model.plane import Plane
from rankmuster.watch.signals import kernel_ring
from rankmuster.watch.signals.kernel import KernelSignal
from rankmuster.watch.signals.kernel_ring import Ring
from rankmuster.watch.signals.signal import Declined, Failed, Heard

XID = "NVRM: Xid (PCI:0000:9b:00): 79, pid=1234, name=python, GPU has fallen off the bus."


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    for name in ("dev", "etc", "var/log"):
        (tmp_path / name).mkdir(parents=True)
    return Machine(hostname="node0", dev=tmp_path / "dev", etc=tmp_path / "etc")


def add(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_an_xid_is_heard_with_the_time_at_which_it_came(machine: Machine) -> None:
    ring = machine.dev / "kmsg"
    ring.write_text(f"3,1,5000000,-;{XID}\n")  # of before
    now = [1000.0]
    signal = KernelSignal(machine=machine, clock=lambda: now[0], wall=lambda: now[0] + 1e9)
    assert observations(polled(signal)) == []
    add(ring, f"3,2,1002500000,-;{XID}\n SUBSYSTEM=pci\n6,3,1002600000,-;something else\n")
    now[0] = 1005.0
    said = polled(signal)
    [heard] = [one for one in said if isinstance(one, Heard) and isinstance(one.observation, Xid)]
    assert (heard.plane, heard.now, heard.unix) == (Plane.KERNEL, pytest.approx(1002.5), pytest.approx(1e9 + 1002.5))
    assert (heard.observation.code, heard.observation.bus_id) == (79, "0000:9b:00")
    assert heard.observation.origin.host == "node0"
    now[0] = 1010.0
    assert observations(polled(signal)) == []
    signal.close()
    assert signal.poll(Deadline.after(1)) == []


@pytest.mark.parametrize("micros", [0, 900_000_000, 99_000_000_000_000])
def test_a_stamp_that_cannot_be_right_is_bounded_by_the_looks(machine: Machine, micros: int) -> None:
    ring = machine.dev / "kmsg"
    ring.touch()
    now = [1000.0]
    signal = KernelSignal(machine=machine, clock=lambda: now[0], wall=lambda: now[0] + 1e9)
    polled(signal)
    add(ring, f"3,2,{micros},-;{XID}\n")
    now[0] = 1005.0
    [heard] = [one for one in polled(signal) if isinstance(one, Heard) and isinstance(one.observation, Xid)]
    assert 1000.0 <= heard.now <= 1005.0
    signal.close()


def test_a_kernel_that_says_nothing_is_heard_all_the_same(machine: Machine) -> None:
    (machine.dev / "kmsg").touch()
    signal = KernelSignal(machine=machine)
    [said] = polled(signal)
    assert isinstance(said, Heard)
    assert said.plane is Plane.KERNEL
    signal.close()


def test_a_syslog_file_stands_in(machine: Machine) -> None:
    log = machine.etc.parent / "var/log/syslog"
    log.write_text(f"Nov 30 03:00:00 node0 kernel: {XID}\n")
    signal = KernelSignal(machine=machine)
    assert observations(polled(signal)) == []
    add(log, f"Nov 30 03:00:01 node0 kernel: [12.5] {XID}\nNov 30 03:00:01 node0 watcher[7]: quotes {XID}\n")
    [xid] = observations(polled(signal))
    assert xid.code == 79
    log.rename(log.with_suffix(".1"))
    add(log, f"2026-11-30T03:00:02.000000+00:00 node0 kernel: {XID.replace('79', '48')}\n")
    assert [one.code for one in observations(polled(signal))] == [48]
    log.unlink()
    told = [polled(signal) for _ in range(4)]
    assert any(isinstance(one, Failed) and "is gone" in one.reason for one in told[-1])
    signal.close()


def test_nothing_to_read_is_declined_once_with_what_would_help(machine: Machine) -> None:
    os.mkfifo(machine.etc.parent / "var/log/kern.log")
    now = [0.0]
    signal = KernelSignal(machine=machine, clock=lambda: now[0])
    [said] = polled(signal)
    assert isinstance(said, Declined)
    assert said.plane is Plane.KERNEL
    for words in ("kmsg", "is a pipe", "CAP_SYSLOG", "dmesg_restrict", "NVML"):
        assert words in said.reason
    now[0] = 1000.0
    assert polled(signal) == []
    (machine.dev / "kmsg").touch()
    now[0] = 2000.0
    assert isinstance(polled(signal)[0], Heard)
    signal.close()


def test_a_ring_that_writes_faster_than_it_is_read_is_passed_over_and_said(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = machine.dev / "kmsg"
    path.touch()
    monkeypatch.setattr(kernel_ring, "MOST_RECORDS", 3)
    ring = Ring(path)
    add(path, f"3,2,1,-;{XID}\n" * 2000)
    records = ring.read(Deadline.after(5))
    assert records.lines
    assert "passed over" in (records.lost or "")
    assert ring.read(Deadline.after(5)).lines == ()
    ring.close()
    assert ring.read(Deadline.after(5)).problem == errno.EBADF


@pytest.mark.parametrize("junk", [b"\xff\x00\xfe" * 300, b"no record\n", b"9" * 9000 + b"\n", b"3,2,1,-;half"])
def test_anything_may_stand_in_a_ring(machine: Machine, junk: bytes) -> None:
    path = machine.dev / "kmsg"
    path.touch()
    signal = KernelSignal(machine=machine)
    polled(signal)
    with path.open("ab") as file:
        file.write(junk + f"\n3,2,1,-;{XID}\n".encode())
    assert [one.code for one in observations(polled(signal))] == [79]
    signal.close()


def test_the_kernel_of_this_machine_lets_itself_be_followed_or_says_why_not() -> None:
    signal = KernelSignal()
    said = polled(signal)
    assert said
    assert all(isinstance(one, Heard | Declined | Failed) for one in said)
    signal.close()
