"""The kernel's ring buffer from /dev/kmsg: every record it still has, as lines with wall-clock time.

A record is `priority,sequence,microseconds,flags;text`, one per read; continuation lines (` KEY=value`) are left out.
Source: linux Documentation/ABI/testing/dev-kmsg.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.deadline import Deadline

RECORD = 8192
"""Bytes given to one read; the kernel's records are at most 1 KiB of text and their fields, and a smaller buffer gives
EINVAL."""
MAX_RECORDS = 500_000
"""A ring of 16 MB holds about 150,000; a kernel that writes as fast as we read must not keep us for ever."""

REMEDY = (
    "run as root or with CAP_SYSLOG (in a container: SYSLOG among the capabilities to add, and dmesg in the image, for "
    "/dev/kmsg is a device that only privileged ones and docker --device open), or set kernel.dmesg_restrict=0"
)
"""What to do where the ring may not be read."""

_RECORD = re.compile(r"(\d{1,10}),(\d{1,20}),(\d{1,20}),[^;]{0,256};(.*)")
_COMMAND_LINE = re.compile(rb"((?:[Cc]ommand line|[Cc]ommand line parameters|user space):)([^\n]*)")
_INIT = re.compile(rb"(with (?:arguments|environment):[^\n]*)((?:\n[^\n]*?(?:kernel:|[+\-]\d\d:?\d\d|\]) {4,}[^\n]*)+)")
_PUBLIC = re.compile(
    rb" ?(?:intel_iommu|amd_iommu|iommu|iommu\.\w+|pci|pcie_aspm|nvidia[\w.\-]*)=[\w,:.=\-]{1,80}(?!\S)"
)
_ESCAPE = re.compile(r"\\x([0-9a-fA-F]{2})")


@dataclass(frozen=True, slots=True)
class KernelLines:
    """`lines`: (microseconds since boot, text), oldest first. `lost`: records were overwritten while we read.

    `cut`: older ones were left out to stay within the limit. `problem`: errno of what ended the reading early.
    """

    lines: tuple[tuple[int, str], ...]
    lost: bool = False
    cut: bool = False
    problem: int | None = None


def read(path: Path, deadline: Deadline, max_bytes: int) -> KernelLines:
    """Everything from the oldest record on, of it the last `max_bytes`; never waits for new records."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)
    except OSError as error:
        return KernelLines((), problem=error.errno)
    kept: deque[tuple[int, str]] = deque()
    size = 0
    lost = cut = False
    problem = None
    rest = b""
    try:
        for _ in range(MAX_RECORDS):
            if deadline.passed:
                problem = errno.ETIMEDOUT
                break
            try:
                data = os.read(fd, RECORD)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno == errno.EPIPE:  # overwritten under the reader: the next read goes on behind the gap
                    lost = True
                    continue
                problem = error.errno
                break
            if not data:
                break
            # /dev/kmsg gives whole records; a captured file gives any piece.
            *whole, rest = (rest + data).split(b"\n")
            for line in whole:
                record = _record(line)
                if record is None:
                    continue
                kept.append(record)
                size += len(record[1])
                while size > max_bytes and len(kept) > 1:
                    size -= len(kept.popleft()[1])
                    cut = True
            rest = rest[-RECORD:]
    finally:
        os.close(fd)
    return KernelLines(tuple(kept), lost, cut, problem)


def record(line: bytes) -> tuple[int, str] | None:
    """(microseconds since boot, text) of one record without its line end; None for a continuation and for no record."""
    return _record(line)


def _record(line: bytes) -> tuple[int, str] | None:
    match = _RECORD.fullmatch(line.decode("utf-8", errors="replace"))
    if match is None:
        return None
    return int(match.group(3)), _ESCAPE.sub(_unescaped, match.group(4))


def _unescaped(match: re.Match[str]) -> str:
    """A byte that the kernel escaped: printable ones as they are, line ends and control characters as a blank."""
    character = chr(int(match.group(1), 16))
    return character if character.isascii() and character.isprintable() else " "


def as_text(found: KernelLines, host: str, boot: float) -> bytes:
    """Lines as `journalctl -k -o short-iso-precise` writes them. `boot`: unix seconds at which the uptime was 0.

    The kernel's stamps run on a clock that nobody corrects: after weeks they may be off by a second or more.
    """
    lines = []
    for micros, said in found.lines:
        at = boot + micros / 1e6
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1e6):06d}+00:00"
        lines.append(f"{stamp} {host} kernel: {said}\n")
    return public("".join(lines).encode("utf-8", errors="replace"))


def public(log: bytes) -> bytes:
    """The log with the kernel's command line cut down to what bears on devices: people put tokens into it."""
    log = _COMMAND_LINE.sub(lambda match: match.group(1) + b"".join(_PUBLIC.findall(match.group(2))), log)
    return _INIT.sub(rb"\1", log)
