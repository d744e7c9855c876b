"""What stands before the text of a kernel or journal line: dmesg (also -T, -x), syslog, journalctl, /dev/kmsg."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

from rankmuster.evidence import times
from rankmuster.model.stamp import Stamp, StampKind, unix

KERNEL = "kernel"

_KMSG = re.compile(r"^\d{1,10},\d{1,18},(\d{1,18}),[^;]{0,256};")
_FACILITY = re.compile(r"^[a-z]\w{2,9}\s{0,8}:[a-z]{3,6}\s{0,8}: ?")
_PRIORITY = re.compile(r"^<\d{1,3}>")
_UPTIME = re.compile(r"^\[ *\d{1,12}\.\d{1,9}\] ?")
_CALLER = re.compile(r"^\[ *[TC]\d{1,8}\] ?")
_DMESG_T = re.compile(r"^\[[A-Z][a-z]{2} ([A-Z][a-z]{2}) {1,2}(\d{1,2}) (\d\d:\d\d:\d\d) (\d{4})\] ?")
_SYSLOG = re.compile(r"^[A-Z][a-z]{2} {1,2}\d{1,2} (?:\d{4} )?\d\d:\d\d:\d\d(?:\.\d{1,9})? ")
_ISO = re.compile(r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:([.,])\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? ")
_HOST_AND_TAG = re.compile(r"^([\w.\-]{1,255}) ([^\s:\[]{1,128})(?:\[\d{1,10}\])?: ?")
_KERNEL_TAG = re.compile(r"^kernel: ?")
_DAEMON_TAG = re.compile(
    r"^(systemd|nv-[\w\-]{1,40}|nvidia-[\w\-]{1,40}|kubelet|slurm\w{1,10}|containerd|dockerd|opensm)(?:\[\d{1,10}\]): "
)
_PERSISTENCED = re.compile(r"^(nvidia-persistenced): ")
MAX_JSON = 65_536
"""Characters of a `journalctl -o json` record that are parsed; kernel records are about 1 KiB."""


@dataclass(frozen=True, slots=True)
class Line:
    """`tag`: the program that spoke, "kernel" for the kernel itself, None where the line does not say."""

    host: str | None
    stamp: Stamp | None
    tag: str | None
    text: str

    @property
    def from_kernel(self) -> bool:
        """Programs that watch the kernel log print its lines again under their own name; those do not count."""
        return self.tag is None or self.tag == KERNEL


def split(line: str) -> Line:
    """The prefixes taken off, outermost first; a line without any is its own text."""
    rest = line.lstrip("> \t")
    if rest.startswith("{"):
        record = _journal_json(rest)
        if record is not None:
            return record
    kmsg = _KMSG.match(rest)
    if kmsg:
        return Line(None, Stamp(int(kmsg.group(1)) / 1e6, StampKind.UPTIME), KERNEL, rest[kmsg.end() :])
    facility = _FACILITY.match(rest)
    if facility:
        rest = rest[facility.end() :]
    priority = _PRIORITY.match(rest)
    if priority:
        rest = rest[priority.end() :]
    dmesg_t = _DMESG_T.match(rest)
    if dmesg_t:
        month, day, clock, year = dmesg_t.groups()
        # The year stands last here; put where the fabric manager has it, one parser serves both.
        return _kernel_only(rest[dmesg_t.end() :], times.syslog(f"{month} {day} {year} {clock}"))
    if _UPTIME.match(rest):
        return _kernel_only(rest, None)
    iso = _ISO.match(rest)
    if iso:
        stamp = times.iso(iso.group(0))
        if facility or iso.group(1) == ",":  # dmesg writes the comma and no host, journalctl a point and a host
            return _kernel_only(rest[iso.end() :], stamp)
        return _with_host(rest[iso.end() :], stamp)
    syslog = _SYSLOG.match(rest)
    if syslog:
        return _with_host(rest[syslog.end() :], times.syslog(syslog.group(0)))
    return _tagged(rest)


def _kernel_only(rest: str, stamp: Stamp | None) -> Line:
    match = _UPTIME.match(rest)
    if match:
        stamp = stamp if stamp is not None else times.uptime(rest)
        rest = rest[match.end() :]
    caller = _CALLER.match(rest)
    return Line(None, stamp, KERNEL, rest[caller.end() :] if caller else rest)


def _with_host(rest: str, stamp: Stamp | None) -> Line:
    match = _HOST_AND_TAG.match(rest)
    if match is None:
        return replace(_tagged(rest), stamp=stamp)
    host, tag = match.groups()
    text = rest[match.end() :]
    if tag == KERNEL:
        return replace(_kernel_only(text, stamp), host=host)
    return Line(host, stamp, tag, text)


def _tagged(rest: str) -> Line:
    kernel = _KERNEL_TAG.match(rest)
    if kernel:
        return _kernel_only(rest[kernel.end() :], None)
    daemon = _DAEMON_TAG.match(rest) or _PERSISTENCED.match(rest)
    if daemon:
        return Line(None, None, daemon.group(1), rest[daemon.end() :])
    return Line(None, None, None, rest)


def _journal_json(text: str) -> Line | None:
    if '"MESSAGE"' not in text or len(text) > MAX_JSON:
        return None
    try:
        record = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not isinstance(record.get("MESSAGE"), str):
        return None
    micros, host, tag = (record.get(k) for k in ("__REALTIME_TIMESTAMP", "_HOSTNAME", "SYSLOG_IDENTIFIER"))
    stamp = None
    if isinstance(micros, str) and micros.isascii() and micros.isdigit() and len(micros) <= 18:
        stamp = unix(int(micros) / 1e6)
    return Line(
        host if isinstance(host, str) else None,
        stamp,
        tag if isinstance(tag, str) else None,
        record["MESSAGE"],
    )
