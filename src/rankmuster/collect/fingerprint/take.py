"""The whole of one node's path, part by part, each with a time of its own: what hangs is unknown, the rest is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rankmuster.collect.bounded import Late, all_within, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint import gpus as nvml
from rankmuster.collect.fingerprint import unread
from rankmuster.collect.fingerprint.container import read_container
from rankmuster.collect.fingerprint.cpu import read_cpu
from rankmuster.collect.fingerprint.driver import Driver, read_driver
from rankmuster.collect.fingerprint.nccl_settings import read_settings
from rankmuster.collect.fingerprint.nics import read_nics
from rankmuster.collect.fingerprint.pci_tree import read_tree
from rankmuster.collect.fingerprint.runtime import container_of, image_digest
from rankmuster.collect.fingerprint.software import read_software
from rankmuster.collect.fingerprint.whose import Whose, whose
from rankmuster.collect.machine import Machine
from rankmuster.evidence.nic_matrix import with_nics
from rankmuster.evidence.nic_order import ordered, rule
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

LAST_SHARE = 0.2
"""Of the whole time, kept for what needs the answers of the other parts (a handful of small files)."""


def take(
    machine: Machine,
    *,
    deadline_s: float,
    environ: Mapping[str, str],
    now: Callable[[], float],
    python: Path | None = None,
    pid: int | None = None,
    image: str | None = None,
) -> NodePath:
    """Everything that can be read within `deadline_s` seconds. Never raises, and returns on any Linux machine.

    `environ`: where NCCL_* values and the image digest are looked for. `now`: unix seconds. `python`: the interpreter
    whose packages serve (None: this one). `pid`: a process of the instance: its environment, its libraries, its limits
    and its /dev/shm are read in place of this program's. `image`: digest of the image (`sha256:...`), or "none", known
    better by who asks.
    """
    taken_at = now()
    deadline = Deadline.after(deadline_s)
    until = deadline.before(LAST_SHARE * deadline_s)
    of = whose(machine, pid, environ, until)
    known = {} if isinstance(of.environ, Unknown) else of.environ
    parts: dict[str, Callable[[], Any]] = {
        "NVML": lambda: nvml.ask(until),
        "the PCI tree": lambda: read_tree(machine.sys, until),
        "network devices": lambda: read_nics(machine.sys, until),
        "software": lambda: read_software(machine, until, python=python, pid=pid, root=of.root),
        "the processor": lambda: read_cpu(machine),
        "NCCL's settings": lambda: read_settings(of.root, of.etc, of.environ, of.home),
        "the container's kind": lambda: container_of(machine.proc, of.root, of.who, known),
        "the driver": lambda: read_driver(machine),
    }
    answers = dict(zip(parts, all_within(until, list(parts.values()), name="fingerprint"), strict=True))
    found = {name: _answer(name, answer) for name, answer in answers.items()}
    return _joined(machine, taken_at, of, image, found, deadline)


def _answer(name: str, answer: Any) -> Any:
    if isinstance(answer, Late):
        return Unknown(f"{name}: {answer}; a device, a file system or the driver does not answer")
    if isinstance(answer, BaseException):
        return Unknown(f"{name}: {type(answer).__name__}: {answer}")
    return answer


def _joined(
    machine: Machine, taken_at: float, of: Whose, image: str | None, found: Mapping[str, Any], deadline: Deadline
) -> NodePath:
    """What needs several parts: where GPUs sit, which NIC is near, what is missing in /sys, and the order of NICs."""
    known = {} if isinstance(of.environ, Unknown) else of.environ
    pci, listed, kind = found["the PCI tree"], found["network devices"], found["the container's kind"]
    cpu = unread.cpu(found["the processor"])
    told = found["NVML"] if not isinstance(found["NVML"], Unknown) else nvml.Told(reason=found["NVML"].reason)
    driver = found["the driver"] if not isinstance(found["the driver"], Unknown) else Driver()
    gpus = driver.checked(
        nvml.gpu_paths(told, {} if isinstance(pci, Unknown) else {n.address: n.numa for n in pci}), pci
    )
    software = unread.software(found["software"], image_digest(kind, image, known))
    settings = found["NCCL's settings"]
    order = rule(
        software.nccl if isinstance(software.nccl, str) else None, {} if isinstance(settings, Unknown) else settings
    )
    nics = listed if isinstance(listed, Unknown) else ordered(listed, order)
    try:
        container = within(deadline.remaining(), lambda: read_container(machine, of, kind, gpus, pci, nics))
    except Exception as error:  # one more part that may hang or fail: the rest has been read
        container = unread.container(Unknown(f"the container's facts: {error}"))
    return NodePath(
        host=machine.hostname,
        taken_at=taken_at,
        driver=driver.version(told, gpus),
        cuda_driver=driver.cuda(told, gpus),
        gpus=gpus,
        nvswitches=driver.nvswitches(pci, gpus),
        matrices=with_nics(nvml.matrices(told), gpus, nics, pci, cpu.numa_nodes),
        pci=pci,
        nics=nics,
        cpu=cpu,
        container=container,
        software=software,
        nccl_settings=settings,
        nccl_conf=None if isinstance(settings, Unknown) else tuple(name for name in settings if name not in known),
        sources=_sources(told, found, order.why),
    )


def _sources(told: nvml.Told, found: Mapping[str, Any], order: str) -> tuple[tuple[str, str], ...]:
    """What was asked and how it ended."""
    said = told.reason or f"{told.count} GPU(s), {len(told.complete)} told whole, {len(told.pairs)} pairs"
    rows = [("NVML", said)]
    rows += [
        (name, f"unknown: {answer.reason}" if isinstance(answer, Unknown) else "read")
        for name, answer in found.items()
        if name != "NVML"
    ]
    return (*rows, ("the order of NICs", order))
