"""`topology/gpus.json` of a bundle: what NVML says of each GPU -> `GpuFacts` and `NvlinkStatus`.

`{"schema": "rankmuster.gpus/1", "host": "...", "gpu_count": 4, "driver": {"Driver Version": "580.159.04"}, "gpus":
[{"index": 0, "uuid": "GPU-...", "bus_id": "0000:9b:00", "name": "NVIDIA H200", "error": "GPU is lost", "facts":
{"GPU Recovery Action": "None"}, "links": [{"link": 0, "state": "active", "speed_mb_per_s": 26562, "errors": {}}]}]}`.
Keys of facts are those of `nvidia-smi -q`, so that a detector asks one question of both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from rankmuster.evidence import json_text, names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.gpu_samples import MAX_GPU
from rankmuster.evidence.json_fields import Fields, number
from rankmuster.evidence.pci import bus_id
from rankmuster.evidence.smi_facts import MAX_FACTS
from rankmuster.evidence.smi_nvlink import MAX_LINKS
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.topology import GpuFacts, NvlinkStatus

SCHEMA = re.compile(rb'"schema"\s*:\s*"rankmuster\.gpus/')
COUNTED_LINKS = "NVLink / Counted Links"
"""How many NVLinks' error counters were read: without it no counter is no sign that all are zero."""

_MEGA = 1000


def recognises(blob: Blob) -> bool:
    """A JSON object of this schema."""
    return json_text.begins(blob.data, SCHEMA)


def read(blob: Blob) -> Reading:
    """Facts of each GPU, and its links where it has any."""
    parsed = json_text.parse(blob.data)
    if not isinstance(parsed.value, dict) or not isinstance(parsed.value.get("gpus"), list):
        message = f"begins like a list of GPUs but cannot be read ({parsed.damage or 'no GPUs in it'})"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    document = parsed.value
    fields = Fields(document, "gpus")
    host = fields.text("host") or names.host_of(blob.path)
    driver = _texts(document.get("driver"))
    found: list[GpuFacts | NvlinkStatus] = []
    complaints: list[str] = []
    for position, entry in enumerate(document["gpus"][:MAX_GPU]):
        if not isinstance(entry, dict):
            complaints.append(f"GPU {position} is not an object and was left out")
            continue
        found += _gpu(blob.path, host, driver, entry, complaints)
    if not found and driver:
        found.append(GpuFacts(blob.path, host, None, None, None, None, driver))
    problems = [Problem(ProblemKind.CORRUPT, blob.path, text) for text in (*fields.complaints, *complaints)]
    if parsed.damage:
        message = f"damaged ({parsed.damage}); what stands before was used"
        problems.insert(0, Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading(tuple(found), tuple(problems), 1)


def _gpu(
    source: str, host: str | None, driver: dict[str, str], entry: dict[str, object], complaints: list[str]
) -> list[GpuFacts | NvlinkStatus]:
    fields = Fields(entry, "a GPU")
    index, uuid, bus = fields.integer("index", most=MAX_GPU), fields.text("uuid"), fields.text("bus_id")
    facts = {**driver, **_texts(entry.get("facts"))}
    error = fields.text("error")
    if error:
        facts["error"] = error
    links = [link for link in _list(entry.get("links")) if isinstance(link, dict)]
    speeds: dict[int, float | None] = {}
    notes: list[str] = []
    for link in links:
        at = number(link.get("link"), most=MAX_LINKS - 1)
        if at is None:
            complaints.append(f"a link of GPU {index} has no usable number and was left out")
            continue
        state, speed = link.get("state"), link.get("speed_mb_per_s")
        active = state == "active" and isinstance(speed, (int, float)) and not isinstance(speed, bool) and speed > 0
        speeds[at] = float(speed) / _MEGA if active and isinstance(speed, (int, float)) else None
        if state == "sleep" and "sleep" not in notes:
            notes.append("sleep")  # not in use, and not down
    for name, value in link_error_facts(links).items():
        if len(facts) < MAX_FACTS:
            facts[name] = value
    complaints.extend(fields.complaints)
    address = bus_id(bus) if bus else None
    found: list[GpuFacts | NvlinkStatus] = [GpuFacts(source, host, index, address, uuid, fields.text("name"), facts)]
    if speeds:
        row = tuple(speeds.get(at) for at in range(max(speeds) + 1))
        name = str(index) if index is not None else address or ""
        found.append(NvlinkStatus(source, host, name, uuid, row, "; ".join(notes) or None))
    return found


def link_error_facts(links: Sequence[Mapping[str, object]]) -> dict[str, str]:
    """Of how many NVLinks the error counters were read, and those that are not zero: 18 links have 270 in all."""
    counted: set[int] = set()
    found: dict[str, str] = {}
    for link in links:
        at = number(link.get("link"), most=MAX_LINKS - 1)
        errors = _texts(link.get("errors"))
        if at is None or not errors:
            continue
        counted.add(at)
        found |= {f"NVLink / Link {at} / {name}": value for name, value in errors.items() if value != "0"}
    return {COUNTED_LINKS: str(len(counted)), **found} if counted else found


def _texts(value: object) -> dict[str, str]:
    """An object's texts and numbers, as texts."""
    if not isinstance(value, dict):
        return {}
    said = {key: each for key, each in list(value.items())[:MAX_FACTS] if isinstance(each, (str, int, float))}
    return {key: str(each) for key, each in said.items() if not isinstance(each, bool)}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


READER = Reader("gpus.json", Plane.TOPOLOGY, ReaderKind.DOCUMENT, recognises, read)
