"""What may come from a file's name where its content has none: rank, time, node and host (DESIGN says which)."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from rankmuster.model.stamp import Stamp, unix

_UNIX_TIME = re.compile(r"(?<!\d)(1[0-9]{9}|2[0-9]{9})(\.\d{1,9})?(?!\d)")
_RANK = re.compile(r"rank[_\-.]?(\d{1,6})(?!\d)", re.IGNORECASE)
_TRAILING = re.compile(r"(?:trace|dump|fr|flight)\w*?[_\-.]?(\d{1,6})(?:\.(?:json|pkl|pickle|bin))*$", re.IGNORECASE)
_NODE = re.compile(r"^\d{10}(?:\.\d+)?-([A-Za-z0-9][\w.\-]*?)(?:\.error)?(?:\.\w+)?$")
_ADDRESS = re.compile(r"(?<![\d.])(\d{1,3}(?:\.\d{1,3}){3})(?![\d.])")
_HOST = re.compile(r"(?:host|node)[=_\-]([A-Za-z0-9][\w.\-]*)", re.IGNORECASE)
_PACKED = (".gz", ".zst", ".tar", ".tgz")


def _base(path: str) -> str:
    name = PurePosixPath(path.replace("!", "/")).name
    while name.endswith(_PACKED):
        name = name[: name.rindex(".")]
    return name


def rank_of(path: str) -> int | None:
    """Global rank in the name: `nccl_trace_rank_3`, `rank3.log`, `host7_rank_12.json`, `flight_3`."""
    name = _base(path)
    found = list(_RANK.finditer(name))
    if found:
        return int(found[-1].group(1))
    trailing = _TRAILING.search(name)
    if trailing:
        return int(trailing.group(1))
    for part in reversed(PurePosixPath(path.replace("!", "/")).parts[:-1]):
        match = _RANK.fullmatch(part)
        if match:
            return int(match.group(1))
    return None


def time_of(path: str) -> Stamp | None:
    """Unix time in the name: `1795986479.454-0.txt`, `1795986477.893.prom`."""
    match = _UNIX_TIME.search(_base(path))
    if not match:
        return None
    return unix(float(match.group(1) + (match.group(2) or "")))


def node_of(path: str) -> str | None:
    """The node of `<unix time>-<node>.<ending>`."""
    match = _NODE.match(_base(path))
    return match.group(1) if match else None


def host_of(path: str) -> str | None:
    """A host that the path names: `host=a7/...`, `node-3/...`, or a bare IPv4 address."""
    for part in reversed(PurePosixPath(path.replace("!", "/")).parts):
        match = _HOST.search(part)
        if match:
            return match.group(1)
        address = _ADDRESS.search(part)
        if address:
            return address.group(1)
    return None
