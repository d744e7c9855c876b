"""The supervisor as a process that lasts: without the command line's libraries, and without what would make it a part
of the instance that it runs.

`rankmuster run` checks everything and then becomes this. Whoever looks for the instance finds processes by their
variables (our markers, a rank, a Slurm task): the supervisor's own have none of these, the command's have all.
"""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NoReturn

from rankmuster.collect.own_path import FLAGS, own_path
from rankmuster.supervise.settings import OnEnd, RunProfile, RunSettings

_PROGRAM = (
    "import json, os, sys; file = open(int(sys.argv[1])); said = json.load(file); file.close(); "
    "sys.path[:] = said['path']; from rankmuster.cli.run_process import main; main(said)"
)

MAX_LINE = 4096
"""Bytes: a pipe that has any room takes so many at once (PIPE_BUF)."""


def become(settings: RunSettings, environment: Mapping[str, str]) -> NoReturn:
    """Replaces this process by the supervisor. Raises OSError where that fails."""
    from rankmuster.collect.find.naming import inherited
    from rankmuster.collect.find.seen import MARKERS

    said = {"settings": asdict(settings), "environment": dict(environment), "path": own_path()}
    descriptor = os.memfd_create("rankmuster-run", 0)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(json.dumps(said).encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    own = {name: value for name, value in inherited(environment).items() if name not in (*MARKERS, "WORLD_SIZE")}
    command = [sys.executable, *FLAGS, "-c", _PROGRAM, str(descriptor)]
    os.execve(sys.executable, command, {**own, "MALLOC_ARENA_MAX": "1"})  # noqa: S606 - our own program


def main(said: dict[str, Any]) -> NoReturn:
    """Supervises, and ends the process with the status that `rankmuster run` promises."""
    from rankmuster.supervise.main import supervise

    raw = said["settings"]
    settings = RunSettings(
        **{
            **raw,
            "command": tuple(raw["command"]),
            "on_end": OnEnd(raw["on_end"]),
            "profile": RunProfile(raw["profile"]),
        }
    )
    status = supervise(settings, said["environment"], tell)
    # threads of callers must not keep the process
    os._exit(status)


def tell(text: str) -> None:
    """One line to standard error; dropped where nobody reads it: a full pipe must not hold up the supervisor."""
    line = f"rankmuster: {_inert(text)}\n".encode("utf-8", "backslashreplace")[:MAX_LINE]
    try:
        poll = select.poll()
        poll.register(2, select.POLLOUT)
        if poll.poll(0):
            os.write(2, line)
    except OSError:
        pass


def _inert(text: str) -> str:
    """Notes hold names of processes, which may hold anything."""
    return "".join(one if one.isprintable() else "?" for one in text)
