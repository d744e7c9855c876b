"""What a shell has read of a container's /proc, as a /proc of its own here: the finder of instances reads it as it
reads any other, and nothing of this machine is taken for the container's.

Secrets do not reach the disk: variables go through the allow-list and command lines through theirs before they are
written. Names come from the container and are believed only where they have the form of a pid and a known file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from rankmuster.adapters.kube.shell_records import Record
from rankmuster.collect.machine import Machine
from rankmuster.collect.proc_text import parse_command, parse_environ, parse_stat
from rankmuster.collect.strip.command import allowed_command
from rankmuster.collect.strip.environment import allowed

FIRST, SECOND = "a", "b"
"""Folders of the two looks."""

KEPT = ("HOME", "XDG_CACHE_HOME")
"""Variables that say where torch puts its dumps; used, and in no bundle."""

_PLACE = re.compile(r"(?P<look>[ab])/(?P<pid>[1-9]\d{0,9})/(?P<file>[a-z_]+(?:/[a-z0-9_]+)?)")
_FILES = frozenset(("stat", "status", "wchan", "cgroup", "cmdline", "environ", "maps", "net/fib_trie", "net/if_inet6"))
_WHOLE = {"proc/stat": "stat", "proc/version": "version"}


def own_pids(records: Sequence[Record]) -> frozenset[int]:
    """The shell's own process and what it has started: in a container they have the instance's variables too."""
    told = next((one.data.strip() for one in records if one.name == "self"), b"")
    if not told.isdigit() or len(told) > 10:
        return frozenset()
    own = {int(told)}
    parents = {}
    for record in records:
        place = _PLACE.fullmatch(record.name)
        if place is not None and place["file"] == "stat":
            stat = parse_stat(record.data)
            if stat is not None:
                parents[int(place["pid"])] = stat.parent
    for pid in sorted(parents):  # children have greater numbers, but where they began anew: then one is listed too many
        if parents[pid] in own:
            own.add(pid)
    return frozenset(own)


def write_proc(records: Sequence[Record], folder: Path, hostname: str) -> Machine:
    """Makes the tree below `folder`, which is empty, and the machine that has it. Raises OSError."""
    own = own_pids(records)
    for look in (FIRST, SECOND):
        (folder / look).mkdir()
    for record in records:
        place = _PLACE.fullmatch(record.name)
        if place is not None and place["file"] in _FILES and int(place["pid"]) not in own:
            target = folder / place["look"] / place["pid"] / place["file"]
            data = _without_secrets(place["file"], record.data)
            target.parent.mkdir(parents=True, exist_ok=True)
            # an own root for each, with nothing in it: else this machine's files would be looked at as the process's
            (folder / place["look"] / place["pid"] / "root").mkdir(exist_ok=True)
            target.write_bytes(data)
        elif record.name in _WHOLE:
            (folder / FIRST / _WHOLE[record.name]).write_bytes(record.data)
    for name in ("sys", "dev", "etc", "run"):
        (folder / name).mkdir()
    return Machine(hostname, folder / FIRST, folder / "sys", folder / "dev", folder / "etc", folder / "run")


def add_maps(records: Iterable[Record], folder: Path) -> None:
    """The mapped files of some processes, to a tree that is there. Raises OSError."""
    for record in records:
        place = _PLACE.fullmatch(record.name)
        if place is not None and place["file"] == "maps" and (folder / FIRST / place["pid"]).is_dir():
            (folder / FIRST / place["pid"] / "maps").write_bytes(record.data)


def _without_secrets(file: str, data: bytes) -> bytes:
    if file == "environ":
        found = parse_environ(data)
        shown = allowed(found) | {name: found[name] for name in KEPT if name in found}
        return b"".join(f"{name}={value}".encode("utf-8", "surrogateescape") + b"\0" for name, value in shown.items())
    if file == "cmdline":
        words = allowed_command(parse_command(data))
        return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)
    return data
