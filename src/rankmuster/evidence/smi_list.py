"""`nvidia-smi -L`: index, name and UUID of each GPU, and the MIG devices below it."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.smi_text import complaint, prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.topology import GpuFacts

_GPU = re.compile(r"^\s*GPU (\d{1,4}): (.{1,200}?) \(UUID: (GPU-[\w\-]{1,80})\)\s*$")
_MIG = re.compile(r"^\s+MIG (.{1,80}?)\s{1,40}Device\s{1,40}(\d{1,4}): \(UUID: (MIG-[\w\-/]{1,160})\)\s*$")
_SIGN = re.compile(_GPU.pattern, re.MULTILINE)
_LINK = re.compile(r"^\s*Link \d", re.MULTILINE)


def _recognises(blob: Blob) -> bool:
    """The same headings stand above the links of `nvlink`, whatever its option."""
    text = head(blob.data)
    return _SIGN.search(text) is not None and _LINK.search(text) is None and "NVLink" not in text


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    found: list[GpuFacts] = []
    known = 0
    for _, line in lines(blob.data):
        gpu = _GPU.match(line)
        mig = None if gpu else _MIG.match(line)
        if gpu:
            index, name, uuid = gpu.groups()
            found.append(GpuFacts(blob.path, host, int(index), None, uuid, name, {}))
        elif mig and found:
            profile, device, uuid = mig.groups()
            last = found[-1]
            facts = {**last.facts, f"MIG {device}": f"{profile} {uuid}"}
            found[-1] = GpuFacts(last.source, last.host, last.index, None, last.uuid, last.name, facts)
        elif complained := complaint(line, blob.path, host):
            found.append(complained)
        else:
            host = prompt_host(line) or host
            continue
        known += 1
    return Reading(tuple(found), (), known)


READER = Reader("nvidia-smi-L", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
