"""`nvidia-smi -q -x`: the same facts as XML.

Read with a tokeniser of our own: it expands no entity and loads no DTD, and a file cut in the middle still gives the
GPUs before the cut. The tool writes plain elements, one attribute (`<gpu id=...>`) and a DOCTYPE without a subset.
"""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import bus_id
from rankmuster.evidence.smi_facts import FactSheet, gpu_facts
from rankmuster.evidence.smi_text import prompt_host
from rankmuster.evidence.text import clean, head
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

ROOT = "nvidia_smi_log"
MAX_OPEN = 64
"""Open elements; the tool nests six deep."""

_TOKEN = re.compile(r"<(/?)([A-Za-z_][\w.\-]{0,80})([^<>]{0,400})>([^<]{0,4096})")
_ID = re.compile(r"\bid=[\"']([^\"']{1,64})[\"']")
_PLAIN = {"&lt;": "<", "&gt;": ">", "&quot;": '"', "&apos;": "'", "&amp;": "&"}
_NOISE = "supported_clocks"  # what could be set, some two hundred lines a GPU
_SHARED = ("timestamp", "driver_version", "cuda_version", "attached_gpus")


def _recognises(blob: Blob) -> bool:
    return f"<{ROOT}" in head(blob.data) or f"<!DOCTYPE {ROOT}" in head(blob.data)


def _read(blob: Blob) -> Reading:
    text = clean(blob.data.decode("utf-8", errors="replace"))
    if "<!ENTITY" in text or re.search(r"<!DOCTYPE[^>\[]{0,400}\[", text):
        message = "the XML declares entities of its own, which nvidia-smi never does; nothing of it was read"
        return Reading((), (Problem(ProblemKind.REFUSED, blob.path, message),), 1)
    host = names.host_of(blob.path)
    for line in text[:512].splitlines()[:1]:
        host = prompt_host(line) or host
    shared: dict[str, str] = {}
    sheets: list[FactSheet] = []
    path: list[str] = []
    inside = False
    known = 0
    for token in _TOKEN.finditer(text):
        closing, tag, attributes, said = token.groups()
        if closing:
            if tag == "gpu" and len(path) <= 1:
                inside = False
            if tag in path:
                del path[len(path) - 1 - path[::-1].index(tag) :]
            continue
        if tag == ROOT:
            path = []
            continue
        if tag == "gpu" and not inside:
            identity = _ID.search(attributes)
            sheets.append(FactSheet(bus_id(identity.group(1)) if identity else None))
            inside, path = True, ["gpu"]
            known += 1
            continue
        value = _unescape(said.strip())
        if not attributes.endswith("/") and len(path) < MAX_OPEN:
            path.append(tag)
        if not value or _NOISE in path:
            continue
        if inside:
            sheets[-1].add(path[1:] if path[:1] == ["gpu"] else path, value)
            known += 1
        elif tag in _SHARED:
            shared[tag] = value
            known += 1
    problems: list[Problem] = []
    if f"</{ROOT}>" not in text:
        message = f"the XML is cut; {len(sheets)} GPUs were read, the last one perhaps in part"
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    facts, _ = gpu_facts(blob.path, host, sheets, shared, attached="attached_gpus", uuid="uuid", name="product_name")
    return Reading(tuple(facts), tuple(problems), known)


def _unescape(text: str) -> str:
    if "&" in text:
        for escaped, plain in _PLAIN.items():
            text = text.replace(escaped, plain)
    return text


READER = Reader("nvidia-smi-xml", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
