"""The page of a DCGM exporter, of which only the series that are used here are kept and parsed. Pure.

What the values are (dcgm-exporter's counter files and issue 87 there, DCGM's `ReadAndCacheNvLinkBandwidth`): whatever
`# TYPE` says, DCGM_FI_PROF_*_BYTES are bytes per second and DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL is MiB per second of
both directions together, whole ones. DCGM_FI_PROF_SM_ACTIVE is not used: NCCL's waiting kernels hold few of the SMs.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.evidence.pci import bus_id

UTIL = "DCGM_FI_DEV_GPU_UTIL"
ENGINE = "DCGM_FI_PROF_GR_ENGINE_ACTIVE"
MEMORY = "DCGM_FI_DEV_MEM_COPY_UTIL"
POWER = "DCGM_FI_DEV_POWER_USAGE"
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
CLOCK = "DCGM_FI_DEV_SM_CLOCK"
NVLINK_TX, NVLINK_RX = "DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"
NVLINK = "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL"
PCIE_TX, PCIE_RX = "DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES"
XID = "DCGM_FI_DEV_XID_ERRORS"
WANTED = (UTIL, ENGINE, MEMORY, POWER, ENERGY, CLOCK, NVLINK_TX, NVLINK_RX, NVLINK, PCIE_TX, PCIE_RX, XID)

PIDS_LABEL = "pids"
"""Of the page of our own node agent, for one pod: processes on the GPU by the pod's own numbers, between commas."""

BLANK = 1e18
"""DCGM's blank values are 0x7ffffffffffffff0 and up (dcgm_structs.h), and 140737488355328 in older 64-bit floats."""
_OLD_BLANK = 140737488355328.0

MOST_LINE = 4096
"""Bytes of one line: labels of Kubernetes make 400."""
MOST_KEPT = 1 << 20
"""Bytes of lines kept: 16 GPUs with 12 series and ten pods on each have 800 KB."""
MOST_GPUS = 256
MOST_PIDS = 512
"""Processes on one GPU; more would not fit into a line."""
_MOST_LABELS = 4096

_LINE = re.compile(r"([A-Z0-9_]+)\{(.*)\}\s+(\S+)")
_LABEL = re.compile(r'([A-Za-z_]\w*)="([^"\\]*(?:\\.[^"\\]*)*)"')
_PER_LINK = ("nvlink", "link", "nvswitch")
_NAMES = tuple(f"{name}{{".encode() for name in WANTED)


class Filter:
    """Takes a page in pieces and keeps the lines that matter. `cut`: there were more of those than are kept."""

    def __init__(self) -> None:
        self.kept: list[bytes] = []
        self.cut = False
        self.series = 0
        self._rest = b""
        self._size = 0
        self._skip = False

    def take(self, piece: bytes) -> None:
        """The next bytes."""
        first, *others = piece.split(b"\n")
        if self._skip:
            if not others:
                return
            first, *others = others
            self._skip = False
        lines = [self._rest + first, *others]
        self._rest = lines.pop()
        for line in lines:
            self._line(line)
        if len(self._rest) > MOST_LINE:
            # The rest of so long a line is passed over.
            self._rest, self._skip = b"", True

    def end(self) -> None:
        """The page has ended: a last line without its end may be cut, and is not used."""
        self._rest = b""

    def _line(self, line: bytes) -> None:
        if not line.startswith(b"DCGM_"):
            return
        self.series += 1
        if not line.startswith(_NAMES) or len(line) > MOST_LINE:
            return
        if self._size + len(line) > MOST_KEPT:
            self.cut = True
            return
        self._size += len(line)
        self.kept.append(line.rstrip(b"\r"))


@dataclass(frozen=True, slots=True)
class Labels:
    """What a series is of. `mig`: an instance of a partitioned GPU. `link`: one link of the GPU. `pids`: processes on
    it by the pod's own numbers, None where the page does not say (an exporter's never does)."""

    gpu: int
    uuid: str | None
    bus: str | None
    pod: str | None
    mig: bool
    link: bool
    pids: tuple[int, ...] | None = None


@dataclass
class PageGpu:
    """One GPU's values by series; of series that came several times (one a pod that shares the GPU) the largest."""

    labels: Labels
    values: dict[str, float] = field(default_factory=dict)
    pods: set[str] = field(default_factory=set)


@dataclass
class Page:
    """`mig`: GPUs that are partitioned and left out, by index. `bad`: lines that could not be read."""

    gpus: dict[int, PageGpu]
    mig: frozenset[int]
    bad: int


class Parser:
    """Parses kept lines; remembers label texts, which stay the same from page to page."""

    def __init__(self) -> None:
        self._labels: dict[str, Labels | None] = {}

    def parse(self, lines: list[bytes]) -> Page:
        """The GPUs of a page, without partitions of GPUs, and GPUs that have any."""
        gpus: dict[int, PageGpu] = {}
        mig: set[int] = set()
        bad = 0
        for line in lines:
            match = _LINE.match(line.decode("utf-8", errors="replace"))
            labels = self._of(match.group(2)) if match is not None else None
            value = _value(match.group(3)) if match is not None else math.nan
            if match is None or labels is None:
                bad += 1
            elif labels.mig:
                mig.add(labels.gpu)
            elif not labels.link and not math.isnan(value):
                gpu = gpus.setdefault(labels.gpu, PageGpu(labels))
                gpu.values[match.group(1)] = max(value, gpu.values.get(match.group(1), value))
                if labels.pod is not None:
                    gpu.pods.add(labels.pod)
        return Page({index: gpu for index, gpu in sorted(gpus.items()) if index not in mig}, frozenset(mig), bad)

    def _of(self, text: str) -> Labels | None:
        if text not in self._labels:
            if len(self._labels) >= _MOST_LABELS:
                self._labels.clear()
            self._labels[text] = _labels(dict(_LABEL.findall(text)))
        return self._labels[text]


def _labels(said: Mapping[str, str]) -> Labels | None:
    gpu = said.get("gpu") or said.get("minor_number") or ""
    if not (gpu.isascii() and gpu.isdecimal()) or int(gpu) >= MOST_GPUS:
        return None
    # Where a scrape of Prometheus' own is read back, labels of the target take the place of the series' own.
    pod, namespace = (
        said.get("exported_pod") or said.get("pod"),
        said.get("exported_namespace") or said.get("namespace"),
    )
    bus = said.get("pci_bus_id")
    return Labels(
        gpu=int(gpu),
        uuid=said.get("UUID") or said.get("uuid") or None,
        bus=bus_id(bus) if bus else None,
        pod=(f"{namespace}/{pod}" if namespace else pod) or None,
        mig=bool(said.get("GPU_I_ID")),
        link=any(key in said for key in _PER_LINK),
        pids=_pids(said[PIDS_LABEL]) if PIDS_LABEL in said else None,
    )


def _pids(text: str) -> tuple[int, ...] | None:
    parts = text.split(",") if text else []
    if len(parts) > MOST_PIDS or not all(one.isascii() and one.isdigit() and len(one) < 12 for one in parts):
        return None
    return tuple(map(int, parts))


def _value(text: str) -> float:
    """A number that is not negative; NaN for anything else and for DCGM's blank values."""
    try:
        value = float(text)
    except ValueError:
        return math.nan
    return value if 0 <= value < BLANK and value != _OLD_BLANK else math.nan
