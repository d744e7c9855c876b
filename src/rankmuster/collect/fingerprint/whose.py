"""Whose surroundings are described: this program's own, or those of a running process of the instance."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.model.unknown import Unknown

ENVIRON_SECONDS = 2.0
"""A process that is stuck in a driver may hold the lock that reading its environment waits for."""


HOME_SECONDS = 1.0
"""For the user database, which may be a directory service over the network."""


@dataclass(frozen=True, slots=True)
class Whose:
    """`who`: "self" or the pid as /proc numbers it. `root`: its file system from here; `home`: as it sees it."""

    who: str
    root: Path
    etc: Path
    environ: Mapping[str, str] | Unknown
    home: str | None


def whose(machine: Machine, pid: int | None, environ: Mapping[str, str], deadline: Deadline) -> Whose:
    """`environ`: this program's own, for when no process is given."""
    if pid is None:
        try:
            home = within(min(HOME_SECONDS, deadline.remaining()), _own_home)
        except (KeyError, Late):  # a container's user that has no entry; a directory service that does not answer
            home = None
        return Whose("self", machine.dev.parent, machine.etc, environ, home or environ.get("HOME"))
    root = machine.proc / str(pid) / "root"
    seen = _environ_of(machine.proc, pid, deadline)
    home = None if isinstance(seen, Unknown) else seen.get("HOME")
    return Whose(str(pid), root, root / "etc", seen, home)


def _environ_of(proc: Path, pid: int, deadline: Deadline) -> Mapping[str, str] | Unknown:
    try:
        seen = within(min(ENVIRON_SECONDS, deadline.remaining()), lambda: Proc(proc).environ(pid))
    except NotAllowed as error:
        return Unknown(f"the environment of process {pid} may not be read ({error}): run as its user, or as root")
    except (OSError, Late) as error:
        return Unknown(f"the environment of process {pid} cannot be read ({error})")
    return seen if seen is not None else Unknown(f"there is no process {pid} any more, or its environment is hidden")


def _own_home() -> str:
    """NCCL asks the user database (src/misc/param.cc, userHomeDir), not HOME. Raises KeyError."""
    return pwd.getpwuid(os.getuid()).pw_dir
