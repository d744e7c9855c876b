"""`lscpu` and `numactl -H` -> `CapturedCpu`: what of the processor enters NCCL's tables, and the NUMA nodes."""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.prompts import host_of_prompt
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import CapturedCpu
from rankmuster.model.node_path import CpuFacts
from rankmuster.model.plane import Plane
from rankmuster.model.unknown import Unknown

KEYS = {
    "Vendor ID": "vendor",
    "CPU family": "family",
    "Model": "model",
    "Socket(s)": "sockets",
    "NUMA node(s)": "numa_nodes",
}
"""lscpu's words in the C locale; it indents some of them since 2.37."""

_KEYED = re.compile(r"^\s*(Vendor ID|CPU family|Model|Socket\(s\)|NUMA node\(s\)):\s*(\S.{0,200}?)\s*$")
_AVAILABLE = re.compile(r"^available: (\d{1,5}) nodes? \([\d,\-]{1,400}\)\s*$")
_SIGN = re.compile(r"^Architecture:\s+\S+|^available: \d{1,5} nodes? \(", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,5}")


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    said: dict[str, str] = {}
    known = 0
    for _, line in lines(blob.data):
        keyed = _KEYED.match(line)
        nodes = _AVAILABLE.match(line)
        if keyed:
            said.setdefault(KEYS[keyed.group(1)], keyed.group(2))
        elif nodes:
            said.setdefault("numa_nodes", nodes.group(1))
        else:
            host = host_of_prompt(line) or host
            continue
        known += 1

    def text(key: str) -> str | Unknown:
        return said.get(key) or Unknown(f"{blob.path} does not say it")

    def number(key: str) -> int | Unknown:
        value = said.get(key, "")
        return int(value) if _NUMBER.fullmatch(value) else Unknown(f"{blob.path} says {value[:40]!r}")

    cpu = CpuFacts(text("vendor"), text("family"), text("model"), number("sockets"), number("numa_nodes"))
    return Reading((CapturedCpu(blob.path, host, cpu),) if known else (), (), known)


PART = Reader("cpu-text", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
