"""Asks one rank for a dump through its named pipe: one byte, never waiting, and only into that very rank's pipe.

torch's monitor thread makes `<prefix><rank>.pipe` when the process group starts and looks into it about once a second;
any byte makes it write a dump while the work goes on (torch/csrc/distributed/c10d, DumpPipe).
"""

from __future__ import annotations

import errno
import os
import re
import stat
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from rankmuster.collect.files_below import located, opened_as
from rankmuster.collect.process_now import open_files
from rankmuster.collect.target import ProcessOfInstance

_DELETED = " (deleted)"


class Asked(Enum):
    """How the asking ended. Only YES can bring a dump."""

    YES = "asked"
    NO_READER = "nobody reads its pipe"
    ABSENT = "its pipe is not there"
    NOT_ITS_OWN = "its pipe is not its own"
    FULL = "its pipe is full"
    DENIED = "no permission for its pipe"
    FAILED = "its pipe could not be used"


@dataclass(frozen=True, slots=True)
class Answer:
    """`note`: a clause for a person."""

    asked: Asked
    note: str


def ask(proc: Path, process: ProcessOfInstance, path: str) -> Answer:
    """Writes one byte into the pipe at `path` (as the process sees it)."""
    shown = path[:300]
    try:
        with located(process.root, path) as handle:
            found = os.fstat(handle)
            if not stat.S_ISFIFO(found.st_mode):
                return Answer(Asked.NOT_ITS_OWN, f"{shown} is no pipe")
            if _is_its_own(proc, process.pid, found) is False:
                note = f"{shown} is another process's pipe, or of an earlier run: it does not hold it open"
                return Answer(Asked.NOT_ITS_OWN, note)
            return _write(handle, shown)
    except FileNotFoundError:
        note = f"{shown} is not there: its process group had not begun, has been torn down, or its buffer is 0"
        return Answer(Asked.ABSENT, note)
    except PermissionError:
        return Answer(Asked.DENIED, f"no permission for {shown} (run as the instance's user or as root)")
    except OSError as error:
        return Answer(Asked.FAILED, f"{shown}: {error.strerror or error}")


def pipe_rank(proc: Path, process: ProcessOfInstance, prefix: str) -> int | None:
    """The global rank in the name of the pipe that the process holds open; None when it cannot be seen."""
    name = re.compile(re.escape(prefix.rsplit("/", 1)[-1]) + r"(\d{1,6})\.pipe")
    for target in (open_files(proc, process.pid) or {}).values():
        found = name.fullmatch(target.removesuffix(_DELETED).rsplit("/", 1)[-1])
        if found:
            return int(found.group(1))
    return None


def _is_its_own(proc: Path, pid: int, pipe: os.stat_result) -> bool | None:
    """Whether the process holds this pipe open; None when its descriptors may not be seen."""
    held = open_files(proc, pid)
    if held is None:
        return None
    for descriptor, target in held.items():
        if not target.removesuffix(_DELETED).endswith(".pipe"):
            continue  # asking a descriptor of a dead file server what it is would hang
        try:
            other = os.stat(proc / str(pid) / "fd" / str(descriptor))
        except OSError:
            continue
        if (other.st_dev, other.st_ino) == (pipe.st_dev, pipe.st_ino):
            return True
    return False


def _write(handle: int, shown: str) -> Answer:
    try:
        writer = opened_as(handle, os.O_WRONLY | os.O_NONBLOCK)
    except OSError as error:
        if error.errno == errno.ENXIO:
            return Answer(Asked.NO_READER, f"nobody reads {shown}: its process is gone or past its end")
        raise
    try:
        os.write(writer, b"1")
    except BlockingIOError:
        return Answer(Asked.FULL, f"{shown} is full: it was asked often and does not look into it")
    except BrokenPipeError:
        return Answer(Asked.NO_READER, f"the reader of {shown} went away")
    finally:
        os.close(writer)
    return Answer(Asked.YES, f"asked through {shown}")
