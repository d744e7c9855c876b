"""Streams of the RAS MONITOR command, text and JSON (NCCL 2.29.2 and later; src/ras/client_support.cc)."""

from __future__ import annotations

import re

from rankmuster.evidence import text, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.ras_handshake import body_offset, is_answer
from rankmuster.evidence.ras_json_text import objects
from rankmuster.evidence.ras_lines import numbers
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import RasEvent, RasProcess

_FIRST_KEY = "timestamp"
_BANNER = "RAS Monitor Mode"
_EVENT = re.compile(r"\s*\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)\] ([A-Z][A-Z_]{2,60}): ?(.*)")
_PROCESS = re.compile(r"Process (-?\d{1,10}) on node (\S*) managing GPUs? ([\d,]*)(?: \(NVML ([\d,]*)\))? ?(.*)")
_ADDRESS = re.compile(r"([0-9A-Za-z.:%_\-]{1,100})<\d{1,5}>")
PREAMBLE_LINES = 5
"""Lines among which the first event or the banner must stand: prompt, handshake, banner, rule."""


def _recognises(blob: Blob) -> bool:
    start = blob.data[:8192]
    if _BANNER.encode() not in start and b"PEER_" not in start and b'"LIFECYCLE"' not in start:
        return False
    head = text.head(blob.data)
    if _is_json(head):
        return all(key in head for key in ('"event"', '"group"', '"timestamp"'))
    first = [line for line in head.splitlines() if line.strip()][:PREAMBLE_LINES]
    return any(line.startswith(_BANNER) or _is_peer_event(line) for line in first)


def _is_json(content: str) -> bool:
    return content[body_offset(content) :].lstrip("\ufeff \t\r\n").startswith("{")


def _is_peer_event(line: str) -> bool:
    match = _EVENT.fullmatch(line)
    return match is not None and match.group(2).startswith("PEER_")


def _read(blob: Blob) -> Reading:
    content = text.clean(blob.data.decode("utf-8", errors="replace"))
    return _read_json(content, blob.path) if _is_json(content) else _read_text(blob)


def _read_text(blob: Blob) -> Reading:
    events: list[RasEvent] = []
    other = 0
    banner = 0
    for number, line in text.lines(blob.data):
        match = _EVENT.fullmatch(line)
        if match is not None:
            stamp, event, rest = match.groups()
            peer, details = _peer_of_text(rest)
            events.append(RasEvent(blob.path, number, times.iso(stamp), event, peer, details))
        elif line.startswith(_BANNER):
            banner += 1
        elif line.strip("= ") and not is_answer(line.strip()) and not line.startswith("$"):
            other += 1
    problems: tuple[Problem, ...] = ()
    if other:
        message = f"{other} lines are no RAS event and were left out; {len(events)} events were read"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(events), problems, len(events) + banner)


def _peer_of_text(rest: str) -> tuple[RasProcess | None, str]:
    process = _PROCESS.fullmatch(rest)
    if process is not None:
        pid, host, gpus, nvml, details = process.groups()
        devices = numbers(gpus)
        peer = RasProcess(host or None, int(pid), devices, numbers(nvml) if nvml is not None else devices)
        return peer, details.strip()
    first, _, details = rest.partition(" ")
    address = _ADDRESS.fullmatch(first)
    if address is not None:
        return RasProcess(address.group(1), None), details.strip()
    return None, rest.strip()


def _read_json(content: str, source: str) -> Reading:
    events: list[RasEvent] = []
    lost = 0
    line, counted = 1, 0
    for found in objects(content, _FIRST_KEY):
        line += content.count("\n", counted, found.start)
        counted = found.start
        event = found.value.get("event") if found.value is not None else None
        if found.value is None or not isinstance(event, str):
            lost += 1
            continue
        lost += not found.whole
        stamp, details = found.value.get("timestamp"), found.value.get("details")
        events.append(
            RasEvent(
                source=source,
                line=line,
                stamp=times.iso(stamp[:64]) if isinstance(stamp, str) else None,
                event=event,
                peer=_peer_of_json(found.value.get("peer")),
                details=details if isinstance(details, str) else "",
            )
        )
    problems: tuple[Problem, ...] = ()
    if lost:
        message = f"{lost} events are cut or damaged; {len(events)} were read"
        problems = (Problem(ProblemKind.DAMAGED, source, message),)
    return Reading(tuple(events), problems, len(events))


def _peer_of_json(peer: object) -> RasProcess | None:
    if not isinstance(peer, dict):
        return None
    address = peer.get("addr")
    if isinstance(address, str):
        match = _ADDRESS.fullmatch(address)
        return RasProcess(match.group(1) if match else address, None)
    host, pid = peer.get("host"), peer.get("pid")
    return RasProcess(
        host=host if isinstance(host, str) and host else None,
        pid=pid if isinstance(pid, int) and not isinstance(pid, bool) else None,
        gpus=_devices(peer.get("cuda_devs")),
        nvml_gpus=_devices(peer.get("nvml_devs")),
    )


def _devices(value: object) -> tuple[int, ...]:
    listed = value if isinstance(value, list) else []
    return tuple(device for device in listed if isinstance(device, int) and not isinstance(device, bool))


READER = Reader(
    name="NCCL RAS event stream", plane=Plane.RAS, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
