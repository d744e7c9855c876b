"""`nvidia-smi nvlink -p`: the PCI address at the other end of every NVLink.

A virtual machine shows `FFFFFFFF:FF:FF.0`, an address that no device has: NCCL takes that for a switch.
"""

from __future__ import annotations

import re

from rankmuster.evidence import names
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.smi_nvlink import MAX_LINKS
from rankmuster.evidence.smi_text import prompt_host
from rankmuster.evidence.text import head, lines
from rankmuster.model.captured_path import NvlinkRemotes
from rankmuster.model.plane import Plane

_GPU = re.compile(r"^\s*GPU (\d{1,4}): .{0,200}?\(UUID: ([\w\-]{1,80})\)")
_LINK = re.compile(r"^\s*Link (\d{1,4}): ([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2,4}:[0-9A-Fa-f]{2}\.[0-9A-Fa-f])\s*$")
_SIGN = re.compile(_LINK.pattern, re.MULTILINE)


def _recognises(blob: Blob) -> bool:
    return _SIGN.search(head(blob.data)) is not None


def _read(blob: Blob) -> Reading:
    host = names.host_of(blob.path)
    found: list[NvlinkRemotes] = []
    gpu: tuple[int, str] | None = None
    remotes: dict[int, str] = {}
    known = 0

    def close() -> None:
        if gpu is not None and remotes:
            found.append(NvlinkRemotes(blob.path, host, gpu[0], gpu[1], dict(sorted(remotes.items()))))

    for _, line in lines(blob.data):
        heading, link = _GPU.match(line), _LINK.match(line)
        if heading:
            close()
            gpu, remotes = (int(heading.group(1)), heading.group(2)), {}
        elif link and gpu is not None and int(link.group(1)) < MAX_LINKS:
            remotes[int(link.group(1))] = link.group(2).lower()
        else:
            host = prompt_host(line) or host
            continue
        known += 1
    close()
    return Reading(tuple(found), (), known if found else 0)


PART = Reader("nvlink-remotes", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)
