"""The kernel log, from `dmesg`, `journalctl -k`, syslog or /dev/kmsg: what happened to devices, links and processes."""

from __future__ import annotations

import re

from rankmuster.evidence import kernel_events, kernel_oom, names, text, xid
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.kernel_line import split
from rankmuster.evidence.log_lines import marked
from rankmuster.model.kernel import GpuUuid, KernelEvent, KernelOrigin, OomKill, SXid, Xid
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_WINDOW = 8192
_QUIET = re.compile(rb"^\d{4}-\d\d-\d\dT[\d:.,]{8,18}(?:Z|[+\-]\d\d:?\d\d) [\w.\-]{1,255} kernel: ", re.MULTILINE)
"""A kernel log in which nothing of interest happened, as collectors take it: it is read, and has nothing to say."""

_WORDS = (*xid.WORDS, *kernel_oom.WORDS, *kernel_events.WORDS)


def _recognises(blob: Blob) -> bool:
    data = text.seen(blob.data)
    return any(word.encode() in data for word in _WORDS) or _quiet(blob)


def _quiet(blob: Blob) -> bool:
    return _QUIET.search(blob.data, 0, _WINDOW) is not None


def _read(blob: Blob) -> Reading:
    path_host = names.host_of(blob.path)
    devices, kills = xid.XidScan(), kernel_oom.OomScan()
    events: list[KernelEvent] = []
    known = int(_quiet(blob))
    for number, raw in marked(blob, _WORDS):
        line = split(raw)
        if not line.from_kernel:
            continue
        origin = KernelOrigin(blob.path, number, line.host or path_host, line.stamp)
        if devices.take(origin, line.text) or kills.take(origin, line.text):
            known += 1
            continue
        event = kernel_events.event(origin, line.text)
        if event is not None:
            events.append(event)
            known += 1
    found: list[Xid | SXid | GpuUuid | OomKill | KernelEvent] = [*devices.finish(), *kills.finish(), *events]
    found.sort(key=lambda o: o.origin.line)
    return Reading(tuple(found), _problems(blob, devices.unreadable), known)


def _problems(blob: Blob, unreadable: list[KernelOrigin]) -> tuple[Problem, ...]:
    if not unreadable:
        return ()
    message = (
        f"{len(unreadable)} Xid lines are cut or damaged, the first at line {unreadable[0].line}; the others were read"
    )
    return (Problem(ProblemKind.DAMAGED, blob.path, message),)


READER = Reader("kernel-log", Plane.KERNEL, ReaderKind.LINES, _recognises, _read)
