"""One pod whose containers are this machine: an API server as far as evidence asks one, with what can go wrong there.

Commands of an exec run here, as they would in the container: real shells, real processes, real bytes.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rankmuster.adapters.kube.api import Kind, KubeError, NotThere, Ran
from rankmuster.collect.deadline import Deadline


@dataclass
class LocalApi:
    """`path`: where commands are looked for ($PATH of the container). `refuse`: verb -> the error that it meets.
    `before`: called with each command before it runs (a pod that is deleted meanwhile)."""

    path: str = os.environ.get("PATH", os.defpath)
    logs: Mapping[tuple[str, bool], bytes] = field(default_factory=dict)
    refuse: dict[str, KubeError] = field(default_factory=dict)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    before: Callable[[Sequence[str]], None] = lambda command: None
    environ: Mapping[str, str] = field(default_factory=dict)
    ran: list[tuple[str, tuple[str, ...]]] = field(default_factory=list)
    patched: list[dict[str, Any]] = field(default_factory=list)

    def get(self, kind: Kind, name: str, namespace: str | None, deadline: Deadline) -> dict[str, Any]:
        self._meet("get")
        if name not in self.objects:
            raise NotThere(f"get {kind.plural} {namespace}/{name}: it is not there (404)", status=404)
        return self.objects[name]

    def patch(self, kind: Kind, name: str, namespace: str, body: dict[str, Any], deadline: Deadline, **how: Any) -> Any:
        self.patched.append({"name": name, "body": body, **how})
        self._meet("patch")
        return self.objects.get(name, {})

    def log(
        self,
        name: str,
        namespace: str,
        deadline: Deadline,
        *,
        container: str | None = None,
        most_bytes: int = 0,
        previous: bool = False,
    ) -> bytes:
        self._meet("log")
        try:
            return self.logs[container or "", previous]
        except KeyError:
            raise NotThere(f"no log of {container}", status=404) from None

    def execute(
        self,
        name: str,
        namespace: str,
        container: str,
        command: Sequence[str],
        deadline: Deadline,
        *,
        most_bytes: int = 1 << 30,
        write: Any = None,
    ) -> Ran:
        self.ran.append((container, tuple(command)))
        self._meet("exec")
        self.before(command)
        environ = {"PATH": self.path, "HOME": str(Path.home()), **self.environ}
        program = _found(command[0], self.path)
        if program is None:
            raise KubeError(f'exec: "{command[0]}": executable file not found in $PATH', maybe=True)
        with subprocess.Popen(
            [program, *command[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            cwd="/",
            start_new_session=True,
        ) as process:
            try:
                output, errors = process.communicate(timeout=max(deadline.remaining(), 0.01))
            except subprocess.TimeoutExpired as late:
                os.killpg(process.pid, 9)
                output, errors = process.communicate()
                if write is not None and output:
                    write(output)
                raise KubeError("the command did not end in time", late=True, maybe=True) from late
        for at in range(0, len(output), 4096):
            if write is not None:
                write(output[at : at + 4096])
        return Ran(process.returncode, b"" if write is not None else output, errors.decode("utf-8", "replace"))

    def _meet(self, verb: str) -> None:
        if verb in self.refuse:
            raise self.refuse[verb]


def _found(name: str, path: str) -> str | None:
    return next((f"{one}/{name}" for one in path.split(":") if os.access(f"{one}/{name}", os.X_OK)), None)


def only(folder: Path, *programs: str) -> str:
    """A folder with nothing but these programs: the PATH of a container that has little."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in programs:
        there = _found(name, os.environ.get("PATH", os.defpath))
        assert there is not None, name
        (folder / name).symlink_to(there)
    return str(folder)
