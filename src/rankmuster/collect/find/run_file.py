"""The records of supervisors (`rankmuster run`) of this node: which may be believed, and why another may not.

A record names processes and files. It is believed where its user could have done as much himself: it must be root's or
this program's own user's (root believes everybody, and then takes files of that user alone), of this boot and this pid
namespace, and of an instance of which nothing lives any more or whose processes were found by themselves.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.supervisor_wire import NAME
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc import NotAllowed, Proc
from rankmuster.model.run_record import MAX_BYTES, Known, Record, parse

MAX_RECORDS = 256
"""Of one folder: a node runs a handful of instances, and their names stay."""

BOOT_ID = "sys/kernel/random/boot_id"


@dataclass(frozen=True, slots=True)
class Kept:
    """`uid`: whose file it is, and so whose word."""

    record: Record
    uid: int
    path: Path


class NotBelieved(Exception):
    """There is a record, and it is no help; the message says why."""


def named(folder: Path, name: str, machine: Machine) -> Kept | None:
    """The record of that instance; None where there is none. Raises NotBelieved."""
    if NAME.fullmatch(name) is None:
        return None
    return _checked(folder / f"{name}.json", machine)


def with_process(folder: Path, pids: Iterable[int], machine: Machine) -> Kept | None:
    """The record of whichever instance has had one of these processes. Those that cannot be believed are passed by."""
    wanted = set(pids)
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith(".json") and not name.startswith("."))
    except OSError:
        return None
    for name in names[:MAX_RECORDS]:
        try:
            kept = _checked(folder / name, machine)
        except NotBelieved:
            continue
        if kept is not None and wanted & {one.pid for one in _all(kept.record)}:
            return kept
    return None


def living(record: Record, machine: Machine) -> tuple[int, ...]:
    """Its processes that still live, by pid; a number that has gone to somebody else is not among them."""
    proc = Proc(machine.proc)
    found = []
    for one in _all(record):
        try:
            now = proc.stat(one.pid)
        except (NotAllowed, OSError):
            continue
        if now is not None and now.start_ticks == one.ticks and (not now.ended or now.threads > 1):
            found.append(one.pid)
    return tuple(found)


def _all(record: Record) -> tuple[Known, ...]:
    members = record.life.members if record.life is not None else ()
    known = {(one.pid, one.ticks): one for one in record.roster}
    known |= {(one.pid, one.ticks): Known(pid=one.pid, ticks=one.ticks) for one in members}
    if record.launcher is not None:
        known.setdefault((record.launcher.pid, record.launcher.ticks), record.launcher)
    return tuple(known.values())


def _checked(path: Path, machine: Machine) -> Kept | None:
    try:
        data, uid = _read(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise NotBelieved(f"its supervisor's record {path} cannot be read ({error.strerror or error})") from error
    try:
        record = parse(data)
    except ValueError as error:
        raise NotBelieved(f"its supervisor's record {path} cannot be used: {error}") from error
    if f"{record.instance}.json" != path.name:
        raise NotBelieved(f"its supervisor's record {path} is of {record.instance[:80]!r}")
    boot = boot_of(machine)
    if boot is None or record.boot != boot:
        raise NotBelieved(f"its supervisor's record {path} is of an earlier boot of this machine")
    space = _namespace(machine)
    if record.life is not None and record.life.namespace and space not in (None, record.life.namespace):
        raise NotBelieved(
            f"its supervisor's record {path} numbers processes of another pid namespace (a container's?): collect there"
        )
    return Kept(record, uid, path)


def _read(path: Path) -> tuple[bytes, int]:
    """Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as file:
        about = os.fstat(file.fileno())
        if not stat.S_ISREG(about.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file")
        own = os.geteuid()
        if about.st_uid not in (0, own) and own != 0:
            raise OSError(errno.EPERM, f"it is user {about.st_uid}'s, not root's or user {own}'s own")
        if about.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(errno.EPERM, f"others may write it, mode {about.st_mode & 0o777:o}")
        if about.st_size >= MAX_BYTES:
            raise OSError(errno.EFBIG, f"it has {about.st_size} bytes, and none has {MAX_BYTES}")
        return file.read(MAX_BYTES), about.st_uid


def boot_of(machine: Machine) -> str | None:
    """The boot id; None where it cannot be read."""
    try:
        return (machine.proc / BOOT_ID).read_text(encoding="ascii").strip()[:64] or None
    except (OSError, ValueError):
        return None


def _namespace(machine: Machine) -> str | None:
    try:
        return Proc(machine.proc).link("self", "ns/pid")
    except NotAllowed:
        return None
