"""The machine of a drill, for its card: who it is, what is installed, and the fingerprint of its communication path."""

from __future__ import annotations

import os
import platform
import time
from collections import Counter
from dataclasses import dataclass
from typing import Any

from rankmuster import __version__
from rankmuster.baseline.fingerprint.build import fingerprint_of
from rankmuster.collect.fingerprint.take import take
from rankmuster.collect.machine import Machine
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown

DEADLINE_SECONDS = 30.0
"""For all that is read of the machine, as `rankmuster fingerprint` has it."""
HASHES = ("class_hash", "node_hash", "topology_hash")
NOTHING = "none"


@dataclass(frozen=True, slots=True)
class MachineFacts:
    """`machine`, `fingerprint`: as `ScoreCard` has them."""

    machine: dict[str, Any]
    fingerprint: dict[str, str | None]


def read(pid: int | None = None) -> MachineFacts:
    """This machine now. `pid`: of a process of the job that is drilled, for its own software; None for this program's.
    Never raises for what cannot be read: that is null, and the reason stands beside it."""
    path = take(Machine(), deadline_s=DEADLINE_SECONDS, environ=dict(os.environ), now=time.time, pid=pid)
    return MachineFacts(machine_of(path), hashes(fingerprint_of(path, profile_key=None)))


def machine_of(path: NodePath) -> dict[str, Any]:
    """`gpus`: each model with how many of it there are; `versions`: null where there is none, or it is not known."""
    models = Counter(_known(gpu.model) or "unknown" for gpu in (() if isinstance(path.gpus, Unknown) else path.gpus))
    return {
        "host": path.host,
        "cpus": os.cpu_count(),
        "gpus": [{"model": model, "count": count} for model, count in sorted(models.items())],
        "platform": platform.platform(),
        "python": platform.python_version(),
        "versions": {
            "torch": _known(path.software.pytorch),
            "nccl": _known(path.software.nccl),
            "driver": _known(path.driver),
            "rankmuster": __version__,
        },
    }


def hashes(found: Fingerprint) -> dict[str, str | None]:
    """Each hash, null with its reason under NAME_unknown where it is not known."""
    plain: dict[str, str | None] = {}
    for name in HASHES:
        value = getattr(found, name)
        unknown = isinstance(value, Unknown)
        plain[name] = None if unknown else str(value)
        if unknown:
            plain[f"{name}_unknown"] = value.reason
    return plain


def _known(value: str | Unknown) -> str | None:
    return None if isinstance(value, Unknown) or value == NOTHING else str(value)
