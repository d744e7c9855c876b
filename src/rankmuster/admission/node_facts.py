"""The facts of this node beside its fingerprint: kernel log, services, ports, and DCGM's own test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rankmuster.admission.dcgm import DcgmReport, read_dcgm
from rankmuster.admission.facts import NodeFacts, UnderLoad
from rankmuster.admission.kernel_source import KernelRead, kernel_read
from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.node import kmsg
from rankmuster.collect.node.children import find_program, run
from rankmuster.collect.node.kernel import DEFAULT_COMMANDS, DEFAULT_JOURNAL
from rankmuster.collect.node.sys_network import Look, look
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.kernel_boots import FIRST_SECONDS
from rankmuster.evidence.take import take
from rankmuster.model.kernel import KernelEvent, ServiceEvent, SXid, Xid
from rankmuster.model.topology import RdmaPort
from rankmuster.model.unknown import Unknown

KERNEL_SECONDS = 5.0
"""Of one source of the kernel log: the ring comes in milliseconds, a journal on a slow disk in seconds."""

KERNEL_BYTES = 32 << 20
"""A ring has at most 16 MB, a boot's journal 1 to 4."""

PORT_SECONDS = 10.0
"""Of all ports: an adapter whose firmware hangs blocks a read for a minute, and is left behind."""

DCGM_SECONDS = {1: 180.0, 2: 600.0, 3: 2_400.0, 4: 10_800.0}
"""Time limit by level: NVIDIA gives seconds, 2, 15 (30 on large nodes) and 60 to 120 minutes for them, doubled here."""

DCGM_BYTES = 8 << 20  # of its report: a result per test and GPU with its messages, some 100 KB

NO_ENGINE = ("unable to establish a connection", "host engine is not running", "hostengine is not running")
"""What dcgmi says where its service does not run: then nothing was tested, as where it is not installed."""

_MICROS = 1e6


@dataclass(frozen=True, slots=True)
class KernelLog:
    """`whole`: whether it goes back to the boot; None where its lines have to say so."""

    data: bytes
    whole: bool | None = None


def kernel_log(
    machine: Machine, boot: float, commands: Sequence[tuple[str, ...]] = DEFAULT_COMMANDS
) -> KernelLog | Unknown:
    """From /dev/kmsg, else dmesg, else the journal. `boot`: unix seconds at which the uptime was 0. `commands`: asked
    in turn where /dev/kmsg gives nothing."""
    path = machine.dev / "kmsg"
    found = kmsg.read(path, Deadline.after(KERNEL_SECONDS), KERNEL_BYTES)
    if found.lines:
        whole = not (found.cut or found.lost or found.problem) and found.lines[0][0] < FIRST_SECONDS * _MICROS
        return KernelLog(kmsg.as_text(found, machine.hostname, boot), whole)
    stories = [f"{path} gives nothing"]
    for command in commands:
        program = find_program(command[0])
        if program is None:
            continue
        ran = run((program, *command[1:]), Deadline.after(KERNEL_SECONDS), max_bytes=KERNEL_BYTES)
        if ran.output.strip() and ran.well:
            return KernelLog(kmsg.public(ran.output))
        stories.append(f"{command[0]} {ran.story}" if not ran.well else f"{command[0]} showed nothing")
    return Unknown("; ".join(stories))


def kernel_events(data: bytes, source: str) -> tuple[tuple[Xid | SXid | KernelEvent, ...], tuple[ServiceEvent, ...]]:
    """What a kernel log, or a journal, says of hardware and of services."""
    found = take(Blob(source, data)).observations
    devices = tuple(each for each in found if isinstance(each, (Xid, SXid, KernelEvent)))
    return devices, tuple(each for each in found if isinstance(each, ServiceEvent))


def services() -> tuple[ServiceEvent, ...] | Unknown:
    """The journal of the NVIDIA services of this boot."""
    program = find_program(DEFAULT_JOURNAL[0])
    if program is None:
        return Unknown("no journalctl here")
    ran = run((program, *DEFAULT_JOURNAL[1:]), Deadline.after(KERNEL_SECONDS))
    if not ran.well:
        return Unknown(f"journalctl {ran.story}")
    return kernel_events(ran.output, "journal")[1]


@dataclass(frozen=True, slots=True)
class Ports:
    """`carriers`: Ethernet interface -> how often its link went from up to down or back (`carrier_changes`)."""

    ports: tuple[RdmaPort, ...] | Unknown
    carriers: Mapping[str, int]


def ports(machine: Machine) -> Ports:
    """Every RDMA port with its counters, and how often each Ethernet carrier changed."""
    kept: list[Look] = []

    def read() -> Look:
        return look(machine.sys, Deadline.after(PORT_SECONDS), with_facts=True, keep=kept.append)

    try:
        found = within(PORT_SECONDS + 1.0, read, "admission-ports")
    except Late as late:
        return Ports(Unknown(f"reading them is {late}: an adapter's firmware does not answer"), _carriers(kept[-1:]))
    except OSError as error:
        return Ports(Unknown(f"/sys could not be read ({error.strerror or error})"), {})
    rdma = take(Blob("sys/class/infiniband", found.facts.encode())).observations if found.facts else ()
    return Ports(tuple(each for each in rdma if isinstance(each, RdmaPort)), _carriers([found]))


def _carriers(looks: Iterable[Look]) -> dict[str, int]:
    changes: dict[str, int] = {}
    for found in looks:
        for row in found.ports:
            counted: Any = row.get("counters", {}).get("carrier_changes")
            if row.get("kind") == "ethernet" and isinstance(counted, int):
                changes[str(row.get("device"))] = counted
    return changes


def dcgm(level: int, *, program: str = "dcgmi", seconds: float | None = None) -> DcgmReport | Unknown:
    """Runs DCGM's diagnosis. `level`: 1 to 4. `seconds`: time limit, None for the level's."""
    found = find_program(program)
    if found is None:
        return Unknown(f"{program} is not installed (NVIDIA's DCGM brings it)")
    limit = seconds if seconds is not None else DCGM_SECONDS.get(level, DCGM_SECONDS[max(DCGM_SECONDS)])
    ran = run((found, "diag", "-r", str(level), "-j"), Deadline.after(limit), max_bytes=DCGM_BYTES)
    if ran.timed_out:
        return DcgmReport(None, level, (), f"ended after {limit:.0f} s", hung=True)
    if ran.problem is not None:
        return Unknown(f"{found} could not be started ({ran.problem})")
    said = f"{ran.errors} {ran.output[:4096].decode('utf-8', 'replace')}".lower()
    if not ran.well and any(words in said for words in NO_ENGINE):
        return Unknown(f"{program} is installed and its host engine (nv-hostengine) does not answer")
    report = read_dcgm(ran.output, level)
    # It ends with another status than 0 when a test failed, too: the report says more.
    if report.problem is not None and not report.results and ran.code:
        return DcgmReport(report.version, level, (), f"{report.problem}; it {ran.story}")
    return report


def node_facts(
    machine: Machine,
    *,
    boot: float,
    log: KernelRead | None,
    before: Ports,
    load: Mapping[int, UnderLoad],
    dcgm_level: int,
) -> NodeFacts:
    """Everything now. `log`: a kernel log that was given (`given_log`), instead of this machine's."""
    kernel = log if log is not None else _read(kernel_log(machine, boot), "the kernel log")
    journal, told = services(), kernel.services
    after = ports(machine)
    return NodeFacts(
        kernel=kernel.events,
        services=journal if isinstance(journal, Unknown) and not told else (*told, *_known(journal)),
        ports=after.ports,
        kernel_whole=kernel.whole,
        ports_before=() if isinstance(before.ports, Unknown) else before.ports,
        carrier_changes=after.carriers,
        load=load,
        dcgm=dcgm(dcgm_level) if dcgm_level else None,
    )


def _known(found: tuple[ServiceEvent, ...] | Unknown) -> tuple[ServiceEvent, ...]:
    return () if isinstance(found, Unknown) else found


def given_log(path: Path) -> KernelRead:
    """A kernel log in a file; of one beyond the limit the newest lines, as a ring keeps them. Raises OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - KERNEL_BYTES, 0))
        found = KernelLog(file.read(KERNEL_BYTES), whole=False if size > KERNEL_BYTES else None)
    return _read(found, str(path))


def _read(log: KernelLog | Unknown, source: str) -> KernelRead:
    if isinstance(log, Unknown):
        return KernelRead(log, (), whole=False)
    kernel = kernel_read(log.data, source)
    return kernel if log.whole is None else replace(kernel, whole=log.whole)
