"""Of a kernel log what belongs to the last boot, and whether it goes back to that boot's beginning.

A journal holds several boots, and an error of an earlier one is no error of this one. A ring that was overwritten, an
empty file and the words of a command that was refused hold no error either, and prove nothing: only a log in which the
kernel's first lines are left does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum

from rankmuster.evidence import kernel_log
from rankmuster.evidence.blob import Blob, Reader, Reading
from rankmuster.evidence.kernel_line import KERNEL, Line, split
from rankmuster.model.stamp import Stamp, StampKind

FIRST_SECONDS = 5.0
"""Uptime of the oldest line of a log that goes back to the boot. The kernel's first line is at 0; the drivers of GPUs
come as modules from the root file system, later than this."""

RESTART_SECONDS = 10.0
"""By which the uptime falls from one line to the next where a boot begins. Lines of several CPUs swap by ms."""

ORDER_LINES = 1000
"""Lines whose times say whether a log has its newest line first."""

_MARK = re.compile(rb"^-- (?:Reboot|Boot [0-9a-f]{1,64}) --[ \t\r]*$", re.MULTILINE)
"""What journalctl writes between two boots, up to systemd 249 and since."""
_BOOT_ID = re.compile(rb'"_BOOT_ID"\s*:\s*"([0-9a-f]{8,64})"')
_VERSION = re.compile(rb"Linux version \d")
_VERSION_LINE = re.compile(r"(?:^|kernel: )Linux version \d")
_UPTIME = re.compile(
    rb"^(?:[a-z]\w{2,9} {0,8}:[a-z]{3,6} {0,8}: ?|<\d{1,3}>|[^\[\n]{10,300}? kernel: )?\[ *(\d{1,12}\.\d{1,9})\]",
    re.MULTILINE,
)
_KMSG = re.compile(rb"^\d{1,10},\d{1,18},(\d{1,18}),[^;\n]{0,256};", re.MULTILINE)
_SANDBOX = re.compile(rb"\] Starting gVisor\.\.\.")
"""A sandbox that makes its log up; the driver's lines are in its host's."""


class Reach(str, Enum):
    """How far back a log goes: to the boot, not that far (or nobody can tell), or it is no kernel log at all."""

    WHOLE = "whole"
    CUT = "cut"
    NO_LOG = "no_log"


@dataclass(frozen=True, slots=True)
class LastBoot:
    """`data`: the log with the lines of earlier boots blank, so that lines keep their numbers. `problem`: why it is not
    whole, to be put behind the log's name ("does not reach back to this boot"); empty where it is."""

    data: bytes
    reach: Reach
    problem: str = ""


@dataclass(frozen=True, slots=True)
class KernelReach:
    """What the reader says of one log beside its events."""

    source: str
    reach: Reach
    problem: str


def last_boot(data: bytes) -> LastBoot:
    """Cuts a log in the form of dmesg, /dev/kmsg, syslog or journalctl (also JSON). Never raises."""
    if not data.strip(b"\0 \t\r\n"):
        return LastBoot(data, Reach.NO_LOG, "is empty")
    if _backwards(data):
        return LastBoot(data, Reach.CUT, "has its newest line first, so nobody can tell where this boot begins")
    start = max(_starts(data), default=0)
    kept = b"\n" * data.count(b"\n", 0, start) + data[start:]
    first = next(_kernel_lines(data[start:]), None)
    if first is None or _SANDBOX.search(data, start):
        return LastBoot(kept, Reach.NO_LOG, f"is no kernel log of this boot ({_beginning(data[start:])})")
    if _VERSION_LINE.search(first.text) or _early(first.stamp):
        return LastBoot(kept, Reach.WHOLE)
    return LastBoot(kept, Reach.CUT, "does not reach back to this boot: its first lines are gone")


def _starts(data: bytes) -> Iterator[int]:
    """Where a boot begins, by every sign there is."""
    yield from (match.end() for match in _MARK.finditer(data))
    for match in _VERSION.finditer(data):
        at = data.rfind(b"\n", 0, match.start()) + 1
        line = split(_text(data[at : match.end()]))
        # A record of JSON is a line only as a whole.
        end = data.find(b"\n", at)
        line = split(_text(data[at : end if end >= 0 else len(data)])) if line.tag != KERNEL else line
        if line.from_kernel and _VERSION_LINE.search(line.text):
            yield at
    known = None
    for match in _BOOT_ID.finditer(data):
        if known is not None and match[1] != known:
            yield data.rfind(b"\n", 0, match.start()) + 1
        known = match[1]
    for form, unit in ((_UPTIME, 1.0), (_KMSG, 1e-6)):
        last = 0.0
        for match in form.finditer(data):
            now = float(match[1]) * unit
            if now + RESTART_SECONDS < last:
                yield match.start()
            last = now


def _backwards(data: bytes) -> bool:
    """By the first lines: whether times fall oftener than they rise."""
    falls = rises = 0
    last: Stamp | None = None
    for line, _ in zip(_kernel_lines(data), range(ORDER_LINES), strict=False):
        now = line.stamp
        if now is not None and last is not None and now.kind is last.kind:
            falls += now.seconds < last.seconds
            rises += now.seconds > last.seconds
        last = now
    return falls > rises


def _kernel_lines(data: bytes) -> Iterator[Line]:
    at = 0
    while at < len(data):
        end = data.find(b"\n", at)
        end = end if end >= 0 else len(data)
        line = split(_text(data[at:end]))
        if line.tag == KERNEL and line.text.strip():
            yield line
        at = end + 1


def _text(line: bytes) -> str:
    return line[:65_536].decode("utf-8", "replace").rstrip("\r")


def _early(stamp: Stamp | None) -> bool:
    return stamp is not None and stamp.kind is StampKind.UPTIME and stamp.seconds < FIRST_SECONDS


def _beginning(data: bytes) -> str:
    words = " ".join(_text(data[:400]).split())[:80]
    return f"it says {words!r}" if words else "nothing stands behind the last boot's mark"


def _recognises(blob: Blob) -> bool:
    return kernel_log.READER.recognises(blob) or last_boot(blob.data[:65_536]).reach is Reach.WHOLE


def _read(blob: Blob) -> Reading:
    found = last_boot(blob.data)
    reading = kernel_log.READER.read(replace(blob, data=found.data))
    if not reading.known and found.reach is not Reach.WHOLE:
        return reading
    reach = KernelReach(blob.path, found.reach, found.problem)
    return replace(reading, observations=(*reading.observations, reach), known=reading.known + 1)


PART = replace(kernel_log.READER, recognises=_recognises, read=_read)
"""The kernel log's reader where only this boot counts: stands in its place in the readers of an admission."""


def for_this_boot(readers: tuple[Reader, ...]) -> tuple[Reader, ...]:
    """The same readers, of which the kernel log's reads the last boot alone and says how far back it goes."""
    return tuple(PART if reader is kernel_log.READER else reader for reader in readers)
