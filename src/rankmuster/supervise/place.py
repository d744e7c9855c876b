"""The folder of a supervisor's files, and the lock that makes it the only one of its name."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.supervisor_wire import socket_path


class PlaceRefused(Exception):
    """Nothing can be run from there; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """`lock`: an open descriptor; whoever holds it is the supervisor. The kernel lets go of it at its end."""

    socket: Path
    record: Path
    lock: int


def take(folder: Path, name: str) -> Place:
    """Makes the folder, and takes the name. Raises PlaceRefused."""
    try:
        socket = socket_path(folder, name)
    except ValueError as error:
        raise PlaceRefused(str(error)) from error
    folder = socket.parent
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        _check(folder)
        lock = _locked(folder / f"{name}.lock", name)
    except OSError as error:
        raise PlaceRefused(
            f"{error.filename or folder} cannot be used: {error.strerror or error}; name another with --folder"
        ) from error
    return Place(socket, folder / f"{name}.json", lock)


def _check(folder: Path) -> None:
    """Whoever can put files into the folder can put a socket in our place. Raises PlaceRefused."""
    found = folder.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise PlaceRefused(f"{folder} belongs to user {found.st_uid}; name a folder of your own with --folder")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX:
        raise PlaceRefused(f"{folder} can be written by others (mode {found.st_mode & 0o777:o}); chmod 700 it")


def _locked(path: Path, name: str) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            with contextlib.suppress(FileNotFoundError):
                if os.fstat(descriptor).st_ino == path.stat().st_ino:
                    return descriptor
        except OSError as error:
            os.close(descriptor)
            if error.errno in (errno.EAGAIN, errno.EACCES):
                raise PlaceRefused(
                    f"another `rankmuster run` of {name} is alive and holds {path}: end it first, or give this one "
                    "another --instance"
                ) from error
            raise
        os.close(descriptor)  # somebody has removed the file in between
