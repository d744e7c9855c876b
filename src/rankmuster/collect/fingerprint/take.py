"""The whole of one node's path, part by part, each with a time of its own: what hangs is unknown, the rest is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from rankmuster.collect.machine import Machine
from rankmuster.model.node_path import NodePath


def take(
    machine: Machine,
    *,
    deadline_s: float,
    environ: Mapping[str, str],
    now: Callable[[], float],
    python: Path | None = None,
    pid: int | None = None,
    image_digest: str | None = None,
) -> NodePath:
    """Everything that can be read within `deadline_s` seconds. Never raises, and returns on any Linux machine.

    `environ`: where NCCL_* values and the image digest are looked for. `now`: unix seconds. `python`: the interpreter
    whose packages serve (None: this one). `pid`: a process of the instance: its environment, its libraries, its limits
    and its /dev/shm are read in place of this program's. `image_digest`: known better by who asks.
    """
    raise NotImplementedError
