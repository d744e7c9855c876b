"""The readers that a node's path is made from: those of this topic first, then every other format.

They stand apart from the registry, which diagnose reads bundles with: what a processor is convicts nobody. People
capture several commands into one file; such a text is given to each of the readers that know a part of it.
"""

from __future__ import annotations

from functools import cache

from rankmuster.evidence import (
    cpu_text,
    foreign_locale,
    lspci,
    nvlink_remotes,
    rdma_devices,
    shm_text,
    smi_list,
    smi_nvlink,
    smi_query,
    smi_topo,
    sys_net,
    sys_pci,
)
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.readers import all_readers
from rankmuster.evidence.text import is_text
from rankmuster.model.plane import Plane

MOST_BYTES = 8 << 20
"""Of a text with several outputs, through which every reader goes once; `lspci -vvv` of a large host is 1 MB."""

PARTS = (
    *(module.READER for module in (smi_topo, smi_nvlink, smi_query, smi_list)),
    *(module.PART for module in (nvlink_remotes, rdma_devices, sys_pci, sys_net, lspci, cpu_text, shm_text)),
)
"""Those called READER are in the registry too; a PART is asked for node paths alone, and would take what `diagnose`
reads otherwise (the ACS lines of lspci)."""


def _recognises(blob: Blob) -> bool:
    return len(blob.data) <= MOST_BYTES and is_text(blob.data) and any(part.recognises(blob) for part in PARTS)


def _read(blob: Blob) -> Reading:
    readings = [reading for part in PARTS if (reading := part.read(blob)).observations]
    return Reading(
        tuple(each for reading in readings for each in reading.observations),
        tuple(problem for reading in readings for problem in reading.problems),
        sum(reading.known for reading in readings),
    )


NODE_TEXT = Reader("node-text", Plane.TOPOLOGY, ReaderKind.DOCUMENT, _recognises, _read)


@cache
def for_node_paths() -> tuple[Reader, ...]:
    """To be given to `evidence.bundle.load(path, readers=...)`, before `node_path.from_evidence`."""
    return (foreign_locale.PART, NODE_TEXT, *all_readers())
