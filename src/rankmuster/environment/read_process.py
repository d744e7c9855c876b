"""A running process's variables, as it was started with: /proc/PID/environ."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from rankmuster.environment.given import FolderState, Given, Unreadable, communication, engine_of, ray_of, sifted
from rankmuster.environment.version import Version, parse_version

MAX_ENVIRON = 4 << 20
"""Bytes; Linux passes on at most about 2 MiB (a quarter of an 8 MiB stack limit)."""
MAX_MAPS = 8 << 20
MAX_ENTRIES = 5000
"""Entries of one site-packages folder that are looked through for versions."""

_LIBTORCH = re.compile(rb"(/\S{1,3000})/torch/lib/libtorch[^/\s]{0,40}\.so")
_LIBNCCL = re.compile(rb"(/\S{1,3000})/nvidia/nccl/lib/libnccl\.so")


def read_process(pid: int, proc: Path = Path("/proc")) -> Given:
    """What `pid` was started with. What it set or removed itself later is not seen.

    Raises Unreadable: no such process, no permission, a process without an environment (a kernel thread, a zombie).
    """
    folder = proc / str(pid)
    data = _read(folder / "environ", MAX_ENVIRON, pid)
    if not data:
        raise Unreadable(
            f"process {pid} has no environment to read: it has ended and waits to be collected, or is a kernel thread"
        )
    values = parse_environ(data)
    command = _quietly(folder / "cmdline", 1 << 16).replace(b"\0", b" ").decode("utf-8", "replace")
    maps = _quietly(folder / "maps", MAX_MAPS)
    return Given(
        where=f"process {pid}",
        values=sifted(values),
        engine=engine_of(command),
        ray=ray_of(command, values),
        torch=_version(folder / "root", _LIBTORCH.search(maps), ("torch-",)),
        nccl=_version(folder / "root", _LIBNCCL.search(maps), ("nvidia_nccl_cu",)),
        look=_Look(folder).state,
        communication=communication(values),
    )


def parse_environ(data: bytes) -> dict[str, str]:
    """NUL-separated NAME=value; the first of a name counts, as for getenv. Odd bytes are kept as escapes."""
    values: dict[str, str] = {}
    for piece in data.split(b"\0"):
        name, equals, value = piece.partition(b"=")
        if equals and name:
            values.setdefault(name.decode("utf-8", "replace"), value.decode("utf-8", "backslashreplace"))
    return values


def _read(path: Path, most: int, pid: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except (FileNotFoundError, ProcessLookupError) as error:
        raise Unreadable(
            f"there is no process {pid} here (containers number their own; a pod's sidecar sees the others only with "
            "shareProcessNamespace)"
        ) from error
    except PermissionError as error:
        raise Unreadable(
            f"no permission to read the environment of process {pid}; run as its user or as root, or give the pod's "
            "specification with --file"
        ) from error
    except OSError as error:
        raise Unreadable(f"cannot read the environment of process {pid}: {error.strerror or error}") from error


def _quietly(path: Path, most: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(most)
    except OSError:
        return b""


def _version(root: Path, library: re.Match[bytes] | None, names: tuple[str, ...]) -> Version | None:
    """From the name of the package's own folder beside the library, as pip leaves it."""
    if library is None:
        return None
    packages = root / os.fsdecode(library.group(1)).lstrip("/")
    try:
        with os.scandir(packages) as entries:
            for _, entry in zip(range(MAX_ENTRIES), entries, strict=False):
                if entry.name.startswith(names) and entry.name.endswith(".dist-info"):
                    return parse_version(entry.name.removesuffix(".dist-info").rpartition("-")[2])
    except (OSError, ValueError):
        return None
    return None


class _Look:
    """Folders as the process sees them, by their owner and mode."""

    def __init__(self, folder: Path) -> None:
        self._root = folder / "root"
        status = _quietly(folder / "status", 1 << 16).decode("ascii", "replace")
        self._uid = self._first(status, "Uid:")
        self._groups = {self._first(status, "Gid:"), *self._numbers(status, "Groups:")}

    @staticmethod
    def _numbers(status: str, key: str) -> list[int]:
        line = next((line for line in status.splitlines() if line.startswith(key)), "")
        return [int(word) for word in line.split()[1:] if word.isdigit()]

    def _first(self, status: str, key: str) -> int | None:
        numbers = self._numbers(status, key)
        return numbers[1] if len(numbers) > 1 else None  # the second is the effective one

    def _shared_root(self) -> bool:
        return os.path.samestat(os.stat(self._root), os.stat("/"))

    def _passes_link(self, path: str) -> bool:
        """An absolute link of the process's file system would be followed in ours."""
        place = self._root
        for part in path.strip("/").split("/"):
            place = place / part
            if stat.S_ISLNK(os.lstat(place).st_mode):
                return True
        return False

    def state(self, path: str) -> FolderState:
        """Of an absolute folder; relative ones and what may not be looked at are UNKNOWN."""
        if not path.startswith("/") or "\0" in path or self._uid is None:
            return FolderState.UNKNOWN
        try:
            if not self._shared_root() and self._passes_link(path):
                return FolderState.UNKNOWN
            found = os.stat(self._root / path.lstrip("/"))
        except (FileNotFoundError, NotADirectoryError):
            return FolderState.MISSING
        except OSError:
            return FolderState.UNKNOWN
        if not stat.S_ISDIR(found.st_mode):
            return FolderState.NO_FOLDER
        if self._uid == 0:
            return FolderState.FINE
        shift = 6 if found.st_uid == self._uid else 3 if found.st_gid in self._groups else 0
        return FolderState.FINE if found.st_mode >> shift & 0o3 == 0o3 else FolderState.NOT_WRITABLE
