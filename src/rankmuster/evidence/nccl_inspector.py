"""JSON lines of NCCL's Inspector profiler plugin (2.28.3 and later; NVIDIA/nccl, ext-profiler/inspector).

One line is one completed operation: `header` (communicator, rank), `metadata` (time, host, process) and `coll_perf` or
`p2p_perf`. The format calls itself v4.0; other plugins write the same shape with less metadata, so only the rank, the
operation and its time are required, and fields are looked for in the line itself where the parts are not nested.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any

from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.nccl_messages import COMM_ID_DIGITS
from rankmuster.model.nccllog import NcclPerformance
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.stamp import Stamp, unix

_LARGEST = 2**63
"""No counter, size or time of the plugin is larger (they are 64-bit); larger numbers are damage."""

_MICROSECONDS = 1e-6

_HASH = re.compile(r"(?:0x)?([0-9a-fA-F]{1,16})")


def _recognises(blob: Blob) -> bool:
    head = text.head(blob.data)
    return ('"coll_exec_time_us"' in head or '"p2p_exec_time_us"' in head) and any(
        line.lstrip().startswith('{"') and '"' in line and ("_perf" in line or "_exec_time_us" in line)
        for line in head.splitlines()
    )


def _part(record: dict[str, Any], name: str) -> dict[str, Any]:
    part = record.get(name)
    return part if isinstance(part, dict) else record


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGEST < value < _LARGEST:
        return None
    return float(value) if math.isfinite(value) else None


def _integer(value: object) -> int | None:
    number = _number(value)
    return int(value) if number is not None and isinstance(value, int | float) else None


def _word(value: object) -> str | None:
    return value[:256] if isinstance(value, str) and value else None


def _comm(value: object) -> str | None:
    """The communicator's hash as NCCL's init lines and RAS have it, 16 hex digits, where it is one."""
    word = _word(value)
    hexadecimal = _HASH.fullmatch(word) if word else None
    return hexadecimal[1].lower().zfill(COMM_ID_DIGITS) if hexadecimal else word


def _stamp(metadata: dict[str, Any]) -> Stamp | None:
    at = _number(metadata.get("dump_timestamp_us"))
    return unix(at * _MICROSECONDS) if at is not None and at > 0 else None


def _performance(blob: Blob, number: int, record: dict[str, Any]) -> NcclPerformance | None:
    kind = "p2p" if "p2p_perf" in record or "p2p" in record else "coll"
    header, metadata, perf = _part(record, "header"), _part(record, "metadata"), _part(record, f"{kind}_perf")
    rank, op = _integer(header.get("rank")), _word(perf.get(kind))
    exec_us = _number(perf.get(f"{kind}_exec_time_us"))
    if rank is None:
        rank = names.rank_of(blob.path)
    if rank is None or op is None or exec_us is None or exec_us < 0:
        return None
    return NcclPerformance(
        source=blob.path,
        line=number,
        host=_word(metadata.get("hostname")) or names.host_of(blob.path),
        pid=_integer(metadata.get("pid")),
        comm=_comm(header.get("id")),
        rank=rank,
        nranks=_integer(header.get("n_ranks")) or 0,
        op=op,
        sequence=_integer(perf.get(f"{kind}_sn")) or 0,
        bytes=_integer(perf.get(f"{kind}_msg_size_bytes")) or 0,
        exec_us=exec_us,
        bus_gbs=_number(perf.get(f"{kind}_busbw_gbs")),
        peer=_integer(perf.get("p2p_peer")) if kind == "p2p" else None,
        stamp=_stamp(metadata),
    )


def _records(blob: Blob) -> Iterator[tuple[int, NcclPerformance | None]]:
    for number, line in text.lines(blob.data):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            yield number, None
            continue
        yield number, _performance(blob, number, record) if isinstance(record, dict) else None


def _read(blob: Blob) -> Reading:
    found: list[NcclPerformance] = []
    bad: list[int] = []
    for number, value in _records(blob):
        if value is None:
            bad.append(number)
        else:
            found.append(value)
    problems: tuple[Problem, ...] = ()
    if bad:
        message = (
            f"{len(bad)} lines are not records of a completed operation (the first is line {bad[0]}: cut, or without "
            f"rank, operation or time); the other {len(found)} were read"
        )
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(found), problems, len(found))


READER = Reader(
    name="nccl-inspector", plane=Plane.NCCL_LOG, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
