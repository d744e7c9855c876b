"""`nvidia-smi --query-gpu=... --format=csv`: one line per GPU under a header of field names."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import bus_id
from rankmuster.evidence.smi_text import complaint, prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.topology import GpuFacts

_FIELD = re.compile(r"[a-z][a-z0-9_]{0,60}(?:\.[a-z0-9_]{1,60}){0,6}(?: \[[^\]\[]{1,16}\])?")
_IDENTITY = frozenset({"index", "uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "gpu_serial"})
_TIME = frozenset({"timestamp"})
_OPTION = re.compile(r"--query-gpu[= ]([\w.,]{1,4000})")
_MAX_FIELDS = 512
HEAD_LINES = 8
"""Where the header or the command must stand; a table further down belongs to some other text."""


def _recognises(blob: Blob) -> bool:
    return _header(head(blob.data).splitlines()[:HEAD_LINES]) is not None


def _read(blob: Blob) -> Reading:
    header: tuple[str, ...] | None = None
    host = names.host_of(blob.path)
    found: list[GpuFacts] = []
    known = odd = 0
    for number, line in lines(blob.data):
        if not line.strip():
            continue
        fields = _fields(line) if number <= HEAD_LINES else None
        if fields is not None:
            header = fields
            host = prompt_host(line) or host
            known += 1
            continue
        complained = complaint(line, blob.path, host)
        if complained is not None:
            found.append(complained)
            known += 1
            continue
        values = [v.strip() for v in line.split(",")][: _MAX_FIELDS + 1]
        if header is None:
            continue
        if len(values) != len(header):
            odd += 1
            continue
        found.append(_facts(blob.path, host, dict(zip(header, values, strict=True))))
        known += 1
    problems: tuple[Problem, ...] = ()
    if odd:
        message = f"{odd} lines have not the header's number of fields; the other {len(found)} were used"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading(tuple(found), problems, known)


def _header(first: list[str]) -> tuple[str, ...] | None:
    for line in first:
        fields = _fields(line)
        if fields is not None:
            return fields
    return None


def _fields(line: str) -> tuple[str, ...] | None:
    """Field names from the header, or from the command above a table without one. At least two, one of them a name
    of the GPU; a first column of time makes it a log of samples, which is not this format.
    """
    option = _OPTION.search(line)
    fields = [f.strip() for f in (option.group(1) if option else line).split(",")]
    if not 2 <= len(fields) <= _MAX_FIELDS or not all(_FIELD.fullmatch(f) for f in fields):
        return None
    if not _IDENTITY & set(fields) or _TIME & set(fields):
        return None
    return tuple(fields)


def _facts(source: str, host: str | None, facts: dict[str, str]) -> GpuFacts:
    index = facts.get("index", "")
    address = facts.get("pci.bus_id") or facts.get("gpu_bus_id")
    return GpuFacts(
        source,
        host,
        int(index) if index.isascii() and index.isdigit() and len(index) <= 4 else None,
        bus_id(address) if address else None,
        facts.get("uuid") or facts.get("gpu_uuid"),
        facts.get("name") or facts.get("gpu_name"),
        facts,
    )


READER = Reader("nvidia-smi-csv", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
