"""`nvidia-smi -q`: everything the driver says of each GPU, as an indented text; and what it says when it cannot."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.pci import bus_id
from rankmuster.evidence.smi_facts import FactSheet, gpu_facts
from rankmuster.evidence.smi_text import COMPLAINT_WORDS, complaint, prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.topology import GpuFacts

INDENT = 4
"""Blanks per level of the text."""

_LOG_TITLE = "NVSMI LOG"
_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$")
MAX_KEY = 120
MAX_VALUE = 4096
_SIGN = re.compile(r"^GPU [0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]\s*$", re.MULTILINE)
_SHORT = 8192
"""A complaint that stands alone is a few lines; in a longer text it is somebody's quotation."""


def _recognises(blob: Blob) -> bool:
    text = head(blob.data)
    if "<nvidia_smi_log" in text:
        return False
    if _LOG_TITLE in text or _SIGN.search(text):
        return True
    return len(blob.data) < _SHORT and text.lstrip().startswith(COMPLAINT_WORDS)


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    shared: dict[str, str] = {}
    sheets: list[FactSheet] = []
    complaints: list[GpuFacts] = []
    sections: list[str] = []
    known = 0
    for _, line in lines(blob.data):
        gpu = _GPU.match(line)
        if gpu:
            sheets.append(FactSheet(bus_id(gpu.group(1))))
            sections = []
            known += 1
            continue
        complained = complaint(line, blob.path, host)
        if complained is not None:
            complaints.append(complained)
            known += 1
            continue
        if "nvidia-smi" in line:
            host = prompt_host(line) or host
        said, colon, value = line.partition(": ")
        key = said.strip()
        if not key or len(key) > MAX_KEY:
            continue
        level = (len(said) - len(said.lstrip(" "))) // INDENT
        if not sheets:
            if colon and key in ("Timestamp", "Driver Version", "CUDA Version", "Attached GPUs"):
                shared[key] = value.strip()[:MAX_VALUE]
                known += 1
        elif level:
            # Top-level facts of a GPU are indented once, so its sections start at level 1.
            del sections[level - 1 :]
            if colon:
                sheets[-1].add((*sections, key), value.strip()[:MAX_VALUE])
                known += 1
            sections.append(key)
    facts, whole = gpu_facts(
        blob.path, host, sheets, shared, attached="Attached GPUs", uuid="GPU UUID", name="Product Name"
    )
    problems: tuple[Problem, ...] = ()
    if sheets and not whole and "Attached GPUs" in shared:
        message = f"{len(sheets)} of {shared['Attached GPUs']} attached GPUs are in the text; indices are unknown"
        problems = (Problem(ProblemKind.DAMAGED, blob.path, message),)
    return Reading((*facts, *complaints), problems, known)


READER = Reader("nvidia-smi-q", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
