"""The GPUs that a container has, by the device files in its /dev: what is numbered in there counts these.

Container runtimes with CDI, as Kubernetes has them, name no GPU in the environment. Source: NVIDIA's driver README,
chapter on /proc (`/proc/driver/nvidia/gpus/BUS/information`: GPU UUID, Device Minor).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.machine import Machine

_NODE = re.compile(r"nvidia(\d{1,4})")
_UUID = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-f-]{8,64})\s*$", re.MULTILINE)
_MINOR = re.compile(r"^Device Minor:\s*(\d{1,4})\s*$", re.MULTILINE)
MAX_BYTES = 4096
"""Of one `information`: some 400."""


def handed_in(machine: Machine, pid: int, gpus: Sequence[Gpu]) -> tuple[Gpu, ...] | None:
    """Of `gpus`, in NVML's order, those that the process has device files for; empty where it is not known which.

    None: the same as this program has, or its /dev cannot be seen.
    """
    theirs, ours = _minors(machine.proc / str(pid) / "root" / "dev"), _minors(machine.dev)
    if not theirs or theirs == ours:
        return None
    by_minor = _uuids(machine.proc / "driver" / "nvidia" / "gpus")
    wanted = {by_minor.get(minor) for minor in theirs}
    found = tuple(gpu for gpu in gpus if gpu.uuid is not None and gpu.uuid in wanted)
    return found if len(found) == len(theirs) else ()


def _minors(folder: Path) -> frozenset[int]:
    """Numbers of the GPUs' device files; a container's /dev that is a link to somewhere is not followed."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return frozenset()
    try:
        return frozenset(int(match[1]) for name in os.listdir(handle) if (match := _NODE.fullmatch(name)))
    except OSError:
        return frozenset()
    finally:
        os.close(handle)


def _uuids(folder: Path) -> dict[int, str]:
    """Minor -> UUID, as the driver says."""
    found: dict[int, str] = {}
    try:
        buses = os.listdir(folder)
    except OSError:
        return found
    for bus in buses:
        try:
            with (folder / bus / "information").open("rb") as file:
                text = file.read(MAX_BYTES).decode("utf-8", "replace")
        except OSError:
            continue
        uuid, minor = _UUID.search(text), _MINOR.search(text)
        if uuid and minor:
            found[int(minor[1])] = uuid[1]
    return found
