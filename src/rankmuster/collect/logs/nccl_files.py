"""Which files NCCL's own log of a process is in, by the settings of that process.

NCCL_DEBUG_FILE is expanded as NCCL does: `%h` host name up to the first dot, `%p` pid, `%%` a percent sign, anything
else as it stands (src/debug.cc). The settings may also come from /etc/nccl.conf, ~/.nccl.conf or NCCL_CONF_FILE; the
environment outranks them. The log exists only if NCCL_DEBUG is above VERSION.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath

from rankmuster.collect import files_below
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.target import ProcessOfInstance

CONF_BYTES = 65_536
MAX_PATTERN = 4096
"""Characters of a path (PATH_MAX)."""
STANDARD = {"/dev/stdout", "/dev/stderr", "stdout", "stderr"}
"""Values that stand for the process's own output."""

ROTATED = re.compile(
    r"[.\-](?:\d{1,4}|\d{8}(?:[.\-]\d{1,10})?|\d{4}-\d\d-\d\d(?:[T_.\-][\d:.]{1,12})?|old|bak)(?:\.gz)?|\.gz"
)
"""What rotation hangs onto a name."""
_SETTING = re.compile(r"\s*(NCCL_[A-Z0-9_]{1,60})\s*=\s*(.*?)\s*$")


def settings(process: ProcessOfInstance) -> Mapping[str, str]:
    """NCCL_DEBUG and NCCL_DEBUG_FILE as the process reads them."""
    found: dict[str, str] = {}
    home = process.environ.get("HOME", "/root" if process.uid == 0 else "")
    places = [process.environ.get("NCCL_CONF_FILE") or (f"{home}/.nccl.conf" if home else ""), "/etc/nccl.conf"]
    for place in places:
        for name, value in _conf(process, place):
            found.setdefault(name, value)
    return found | {name: value for name, value in process.environ.items() if name.startswith("NCCL_DEBUG")}


def _conf(process: ProcessOfInstance, place: str) -> Iterable[tuple[str, str]]:
    if not place.startswith("/"):
        return []
    try:
        with files_below.open_regular(process.root, place) as descriptor:
            text = os.read(descriptor, CONF_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    lines = (_SETTING.match(line.partition("#")[0]) for line in text.splitlines())
    return [(match[1], match[2]) for match in lines if match]


def expansion(pattern: str, pid: int) -> tuple[str, re.Pattern[str]]:
    """(folder as it stands, with `%h` left in it, and what the name must look like)."""
    folder, _, name = pattern.rpartition("/")
    return folder.replace("%p", str(pid)).replace("%%", "%"), shape(name, str(pid), "[^/]{1,255}?")


def shape(name: str, pid: str, host: str) -> re.Pattern[str]:
    """What one part of an expanded pattern looks like. `pid`, `host`: expressions for either.

    Each stands for the same wherever it is repeated; free to differ, a name of many would take for ever to try.
    """
    found = ""
    for part in re.split(r"(%h|%p|%%)", name):
        if part in ("%h", "%p"):
            group, what = ("host", host) if part == "%h" else ("pid", pid)
            found += f"(?P={group})" if f"(?P<{group}>" in found else f"(?P<{group}>{what})"
        else:
            found += "%" if part == "%%" else re.escape(part)
    return re.compile(f"(?P<whole>{found})(?P<rotated>.*)", re.DOTALL)


def sources(process: ProcessOfInstance, pattern: str, hosts: Iterable[str]) -> list[Source]:
    """The process's log and its rotated pieces, newest name first; one that cannot be listed as it is expanded."""
    path = absolute(process, pattern)
    folder, looks = expansion(path, process.inner_pid)
    shared = "%p" not in pattern
    rank = None if shared else process.rank
    found: list[Source] = []
    hosts = tuple(hosts)
    for place in dict.fromkeys(folder.replace("%h", host_part(host)) for host in (hosts if "%h" in folder else [""])):
        try:
            listed = files_below.names_in(process.root, place or "/")
        except OSError:
            listed = _expanded(path.rpartition("/")[2], process.inner_pid, hosts)
        for name in listed:
            match = looks.fullmatch(name)
            rotated = match["rotated"] if match else ""
            if match and (not rotated or ROTATED.fullmatch(rotated)):
                packed = name.endswith(".gz")
                named = name.removesuffix(".gz")
                found.append(Source(process.root, f"{place}/{name}", named, rank, process.uid, packed=packed))
    return sorted(found, key=lambda source: (source.named.count("."), source.named))


def _expanded(name: str, pid: int, hosts: Iterable[str]) -> list[str]:
    """The name as NCCL makes it of the pattern, one for each host name."""
    parts = re.split("(%[hp%])", name)
    values = [{"%p": str(pid), "%h": host_part(host), "%%": "%"} for host in hosts or ("",)]
    return list(dict.fromkeys("".join(of.get(part, part) for part in parts) for of in values))


def absolute(process: ProcessOfInstance, pattern: str) -> str:
    """The pattern as a path of the process's."""
    return pattern if pattern.startswith("/") else str(PurePosixPath(process.cwd or "/") / pattern)


def host_part(host: str) -> str:
    """What NCCL writes for `%h`: up to the first dot."""
    return host.partition(".")[0].replace("%", "-").replace("/", "-")
