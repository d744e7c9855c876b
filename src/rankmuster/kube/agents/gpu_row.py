"""One GPU at one moment as a DCGM exporter's page has it, and the page's text. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from rankmuster.watch.signals import dcgm_page as page
from rankmuster.watch.signals.dcgm_page import PIDS_LABEL

HELP = {
    page.UTIL: "GPU utilization (in %).",
    page.ENGINE: "Ratio of time the graphics engine is active.",
    page.MEMORY: "Memory utilization (in %).",
    page.POWER: "Power draw (in W).",
    page.ENERGY: "Total energy consumption since this agent began (in mJ).",
    page.CLOCK: "SM clock frequency (in MHz).",
    page.NVLINK_TX: "Bytes per second sent over NVLink.",
    page.NVLINK_RX: "Bytes per second received over NVLink.",
    page.NVLINK: "MiB per second over NVLink, both directions.",
    page.PCIE_TX: "Bytes per second sent over PCIe.",
    page.PCIE_RX: "Bytes per second received over PCIe.",
    page.XID: "Value of the last XID error encountered.",
}


MOST_PIDS = 200
"""Processes on one GPU that its labels name: a reader takes lines of 4 KiB."""


@dataclass(frozen=True, slots=True)
class Whose:
    """The pod that has a GPU, as far as it is known."""

    uid: str = ""
    namespace: str = ""
    name: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """`values`: by series. `pids`: processes on it by the host's numbers, None where nobody says.
    `pods`: as an exporter says."""

    gpu: int
    uuid: str | None
    bus: str | None
    values: Mapping[str, float] = field(default_factory=dict)
    pids: tuple[int, ...] | None = None
    pods: tuple[Whose, ...] = ()


@dataclass(frozen=True, slots=True)
class Shown:
    """A row for one pod (or none). `pids`: by the pod's own numbers, others as `pid + BEYOND_PIDS`; None: not said."""

    row: Row
    whose: Whose
    pids: tuple[int, ...] | None = None


def text(rows: Iterable[Shown], node: str) -> str:
    """The page."""
    by_series: dict[str, list[str]] = {name: [] for name in HELP}
    for shown in rows:
        labels = _labels(shown, node)
        for name, value in shown.row.values.items():
            if name in by_series:
                by_series[name].append(
                    f"{name}{{{labels}}} {value:.6g}" if value < 1e6 else f"{name}{{{labels}}} {value:.0f}"
                )
    lines: list[str] = []
    for name, series in by_series.items():
        if series:
            lines += [f"# HELP {name} {HELP[name]}", f"# TYPE {name} gauge", *series]
    return "\n".join([*lines, ""])


def _labels(shown: Shown, node: str) -> str:
    row, whose = shown.row, shown.whose
    said = {
        "gpu": str(row.gpu),
        "UUID": row.uuid or "",
        "pci_bus_id": row.bus or "",
        "device": f"nvidia{row.gpu}",
        "Hostname": node,
        "container": whose.container,
        "namespace": whose.namespace,
        "pod": whose.name,
        "pod_uid": whose.uid,
    }
    if shown.pids is not None and len(shown.pids) <= MOST_PIDS:
        said[PIDS_LABEL] = ",".join(map(str, shown.pids))
    return ",".join(f'{name}="{_escaped(value)}"' for name, value in said.items() if value or name == PIDS_LABEL)


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
