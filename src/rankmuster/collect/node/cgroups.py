"""The memory, process and CPU limits that hold for a process: its cgroup and those above it, version 1 and 2."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from rankmuster.collect.node.sys_files import read_text

MAX_LEVELS = 8
"""Levels upwards: Kubernetes has five (container, pod, class, kubepods, root)."""

NO_LIMIT = 1 << 62
"""Version 1 writes the largest multiple of a page below 2^63 where there is no limit."""

_POD = re.compile(r"pod([0-9a-f]{8}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{4}[-_][0-9a-f]{12})")
_EVENTS = ("oom", "oom_kill", "oom_group_kill", "max", "high")
_CPU = ("nr_periods", "nr_throttled", "throttled_usec", "throttled_time")


def paths(proc_folder: Path) -> dict[str, str]:
    """Controller -> path, from /proc/PID/cgroup; "" is version 2's single hierarchy."""
    found: dict[str, str] = {}
    for line in (read_text(proc_folder / "cgroup") or "").splitlines():
        parts = line.split(":", 2)
        if len(parts) == 3 and parts[2].startswith("/"):
            for controller in parts[1].split(","):
                found[controller] = parts[2]
    return found


def pod_uid(proc_folder: Path) -> str | None:
    """The pod's UID, which kubelet writes into the path (systemd's driver with underscores)."""
    for path in paths(proc_folder).values():
        match = _POD.search(path)
        if match:
            return match.group(1).replace("_", "-")
    return None


def levels(root: Path, proc_folder: Path) -> list[dict[str, object]]:
    """From the process's own group upwards, what each limits and counts; groups that limit and count nothing are left
    out, but never the first. `root`: where cgroup file systems are mounted (/sys/fs/cgroup)."""
    where = paths(proc_folder)
    found: list[dict[str, object]] = []
    if "memory" in where or "pids" in where:
        found = _up(root / "memory", where.get("memory", "/"), _memory_v1)
        for entry in _up(root / "pids", where.get("pids", "/"), _pids) + _up(root / "cpu", where.get("cpu", "/"), _cpu):
            _merge(found, entry)
    elif "" in where:
        found = _up(root, where[""], _version_2)
    return found[:MAX_LEVELS]


def _merge(found: list[dict[str, object]], entry: dict[str, object]) -> None:
    same = next((other for other in found if other["path"] == entry["path"]), None)
    if same is not None:
        same.update(entry)
    elif len(entry) > 1:
        found.append(entry)


def _up(mount: Path, path: str, read: object) -> list[dict[str, object]]:
    """A group that cannot be seen from here (another namespace's path) stands for what is mounted: one's own."""
    assert callable(read)
    own = PurePosixPath("/", *(part for part in PurePosixPath(path).parts if part not in ("/", "//", "..")))
    if not (mount / str(own).lstrip("/")).is_dir():
        own = PurePosixPath("/")
    found: list[dict[str, object]] = []
    for group in (own, *own.parents)[:MAX_LEVELS]:
        entry = read(mount / str(group).lstrip("/"))
        if entry or not found:
            found.append({"path": str(group), **entry})
    return found


def _version_2(folder: Path) -> dict[str, object]:
    entry: dict[str, object] = {}
    for file, name in (
        ("memory.max", "memory_max"),
        ("memory.high", "memory_high"),
        ("memory.current", "memory_current"),
        ("memory.swap.max", "swap_max"),
    ):
        _put(entry, name, read_text(folder / file, 64))
    entry |= _table(folder / "memory.events", _EVENTS)
    return entry | _pids(folder) | _cpu(folder)


def _memory_v1(folder: Path) -> dict[str, object]:
    entry: dict[str, object] = {}
    _put(entry, "memory_max", read_text(folder / "memory.limit_in_bytes", 64))
    _put(entry, "memory_current", read_text(folder / "memory.usage_in_bytes", 64))
    _put(entry, "limit_hits", read_text(folder / "memory.failcnt", 64))
    return entry | _table(folder / "memory.oom_control", ("oom_kill", "under_oom"))


def _pids(folder: Path) -> dict[str, object]:
    entry: dict[str, object] = {}
    _put(entry, "pids_max", read_text(folder / "pids.max", 64))
    _put(entry, "pids_current", read_text(folder / "pids.current", 64))
    return entry


def _cpu(folder: Path) -> dict[str, object]:
    return dict(_table(folder / "cpu.stat", _CPU))


def _put(entry: dict[str, object], name: str, said: str | None) -> None:
    """A number; "max" and version 1's largest number are no limit and are left out."""
    if said is not None and said.isdecimal() and int(said) < NO_LIMIT:
        entry[name] = int(said)


def _table(path: Path, wanted: tuple[str, ...]) -> dict[str, object]:
    found: dict[str, object] = {}
    for line in (read_text(path) or "").splitlines():
        key, _, value = line.partition(" ")
        if key in wanted and value.isdecimal():
            found[key] = int(value)
    return found
