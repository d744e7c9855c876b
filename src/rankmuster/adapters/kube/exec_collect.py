"""Evidence from one pod that may have nothing installed: by its sidecar, by rankmuster in its own container, by a
shell, by an ephemeral container where that is wanted, and at last by what the API server tells alone.

Each way that fails leaves a note, and the next one is tried in what is left of the time. Nothing that comes out of a
pod is run here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.adapters.collect_here import Taken
from rankmuster.adapters.kube.api import Api, KubeError
from rankmuster.adapters.kube.ephemeral import attach
from rankmuster.adapters.kube.pod_exec import EXEC_RIGHT, collect_in, denied, in_container, tools_in, where
from rankmuster.adapters.kube.pods import engines
from rankmuster.adapters.kube.shell_collect import ShellWish, shell_collect
from rankmuster.collect.deadline import Deadline
from rankmuster.model.kube import SIDECAR, PodView

SHELL_SHARE = 0.55
"""Of the time, kept for a shell where rankmuster in the engine's own container was tried first and brought nothing."""


class How(str, Enum):
    """AUTO: whatever is there, but nothing is added to the pod. EXEC: not by the sidecar. EPHEMERAL: by a container of
    our own, and nothing else."""

    AUTO = "auto"
    EXEC = "exec"
    EPHEMERAL = "ephemeral"


@dataclass(frozen=True, slots=True)
class ExecWish(ShellWish):
    """`container`: of the pod, None: the one that has GPUs. `options`: of `rankmuster collect` there. `image`: of an
    ephemeral container."""

    container: str | None = None
    how: How = How.AUTO
    image: str | None = None
    options: tuple[str, ...] = ()

    def words(self) -> tuple[str, ...]:
        """As `rankmuster collect` in a container takes it."""
        named = (
            ("--instance", self.instance),
            ("--as-instance", self.as_instance),
            ("--as-incarnation", self.as_incarnation),
        )
        given = [word for option, value in named if value for word in (option, value)]
        return ("--ras-risk", self.ras_risk.value, "--addresses", self.addresses.value, *given, *self.options)


def take_pod(api: Api, pod: PodView, wish: ExecWish, output: Path, deadline: Deadline) -> Taken:
    """Into the file `output`, which ends in `.tar.zst`, by the deadline. Raises nothing for expected trouble."""
    options = wish.words()
    running = [one.name for one in engines(pod, wish.container) if one.running]
    if wish.how is How.EPHEMERAL:
        return _ephemeral(api, pod, running[0] if running else None, wish, options, output, deadline)
    notes: list[str] = []
    sidecar = any(one.name == SIDECAR and one.running for one in pod.containers)
    if sidecar and wish.how is How.AUTO and wish.container is None:
        taken = collect_in(api, pod, SIDECAR, output, _most(deadline), stopped=wish.stopped, options=options)
        if taken.bundle is not None:
            return taken
        notes.append(taken.note)
    if not running:
        named = f"container {wish.container}" if wish.container else "container that ranks could run in"
        notes.append(f"{where(pod)}: no {named} is running")
        return _with(notes, shell_collect(api, pod, None, frozenset(), wish, output, deadline))
    container = running[0]
    try:
        tools = tools_in(api, pod, container, deadline)
    except KubeError as error:
        notes.append(f"{in_container(pod, container)}: {denied(error, EXEC_RIGHT)}")
        if wish.how is How.AUTO and wish.image is None:
            notes.append("an ephemeral container needs no shell there: --ephemeral --image IMAGE")
        return _with(notes, shell_collect(api, pod, None, frozenset(), wish, output, deadline))
    if {"runs", "python3"} <= tools:
        taken = collect_in(api, pod, container, output, _most(deadline), stopped=wish.stopped, options=options)
        if taken.bundle is not None:
            return _with(notes, taken)
        notes.append(taken.note)
    return _with(notes, shell_collect(api, pod, container, tools, wish, output, deadline))


def _most(deadline: Deadline) -> Deadline:
    """Where another way may have to be gone after this one."""
    return deadline.within(deadline.remaining() * (1 - SHELL_SHARE / 2))


def _ephemeral(
    api: Api,
    pod: PodView,
    target: str | None,
    wish: ExecWish,
    options: tuple[str, ...],
    output: Path,
    deadline: Deadline,
) -> Taken:
    if wish.image is None:
        return Taken(None, f"{where(pod)}: an ephemeral container needs an image: --image IMAGE")
    if target is None:
        return Taken(None, f"{where(pod)}: no container runs whose processes it could join")
    try:
        name = attach(api, pod, target, wish.image, deadline)
    except KubeError as error:
        return Taken(None, f"{where(pod)}: {denied(error, 'get pods')}" if error.late else str(error), error.late)
    return collect_in(api, pod, name, output, deadline, stopped=wish.stopped, options=options)


def _with(notes: list[str], taken: Taken) -> Taken:
    return Taken(taken.bundle, "; ".join(one for one in (*notes, taken.note) if one), taken.late)
