"""A fingerprint on a terminal: what the node is, whether results of it can be compared, and what is not known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from rankmuster.model.fault import FaultClass
from rankmuster.model.fingerprint import Fingerprint
from rankmuster.model.plane import PlaneState
from rankmuster.model.unknown import Unknown
from rankmuster.report import theme
from rankmuster.report.fingerprint_words import short, unknown_parts, value
from rankmuster.report.paper import Paper
from rankmuster.report.words import clock

MOST_ROWS = 32
"""GPUs or NICs shown one by one; YAML and JSON have all."""

UUID_SHOWN = 12
"""`GPU-287552fe`: enough to tell the GPUs of a fleet apart."""

_NAMES = 17
"""Columns of the names at the left."""


def render(fingerprint: Fingerprint, console: Console) -> None:
    """Print `fingerprint` on `console`, at any width, piped or not."""
    paper = Paper(console)
    _head(paper, fingerprint)
    unknown = unknown_parts(fingerprint)
    if unknown:
        paper.heading("Unknown", "equals nothing: no history applies until it is known")
        look = theme.PLANES[PlaneState.BLIND]
        for part, reason in unknown:
            paper.item("?", paper.text(f"{part}:"), paper.text(reason), style=look.terminal)
    paper.heading("Made of")
    _entries(paper, _parts(fingerprint))
    paper.heading("Settings", "what can be set and changes NCCL's choices")
    _entries(paper, [(name, value(one)) for name, one in fingerprint.settings.items()] or [("none", "")])
    gpus = _list(fingerprint.made_from.get("gpus"))
    if gpus:
        paper.heading("GPUs")
        _rows(paper, [_gpu(gpu) for gpu in gpus if isinstance(gpu, Mapping)])
    nics = _list(fingerprint.made_from.get("nics"))
    if nics:
        paper.heading("NICs", "in the order in which NCCL numbers them")
        _rows(paper, [_nic(nic) for nic in nics if isinstance(nic, Mapping)])
    paper.heading("Hashes")
    source = fingerprint.made_from.get("topology_source")
    made = {"sys": ", from /sys", "matrix": ", from the matrix of nvidia-smi topo -m"}.get(str(source), "")
    _entries(
        paper,
        [
            ("class", f"{short(fingerprint.class_hash)} (results are compared within it)"),
            ("kin", f"{short(fingerprint.kin_hash)} (the same without the settings)"),
            ("topology", f"{short(fingerprint.topology_hash)} (the node model{made})"),
            ("node", f"{short(fingerprint.node_hash)} (this very machine)"),
        ],
    )


def _head(paper: Paper, fingerprint: Fingerprint) -> None:
    known = not isinstance(fingerprint.class_hash, Unknown)
    look = theme.TONES[FaultClass.HEALTHY if known else FaultClass.INCONCLUSIVE]
    count, model = value(fingerprint.gpu_count), value(fingerprint.gpu_model)
    what = "no GPU" if count == "0" else f"{count} x {model}"
    paper.line(
        paper.text(f"class {short(fingerprint.class_hash)}:" if known else "class unknown:", look.terminal),
        paper.text(f"{what}, driver {value(fingerprint.driver)}, NCCL {value(fingerprint.nccl_version)}", "bold"),
        whole=True,
    )
    host = f"host {fingerprint.host}" if fingerprint.host else "host unknown"
    paper.line(paper.text(f"{host}, taken {clock(fingerprint.taken_at, date=True)}", "dim"))


def _parts(fingerprint: Fingerprint) -> list[tuple[str, str]]:
    devices = fingerprint.network_device_set
    kinds = [value(devices)] if isinstance(devices, Unknown) or not devices else [value((one,)) for one in devices]
    return [
        ("image", value(fingerprint.image_digest)),
        ("CUDA", value(fingerprint.cuda_version)),
        ("PyTorch", value(fingerprint.pytorch_version)),
        ("engine", " ".join(dict.fromkeys((value(fingerprint.engine), value(fingerprint.engine_version))))),
        *(("network" if number == 0 else "", kind) for number, kind in enumerate(kinds)),
        ("NIC order", value(fingerprint.nic_order)),
        ("profile", value(fingerprint.nccl_test_profile)),
    ]


def _entries(paper: Paper, entries: Sequence[tuple[str, str]]) -> None:
    width = max([_NAMES, *(len(name) for name, _ in entries)])
    for name, words in entries:
        look = theme.PLANES[PlaneState.BLIND].terminal if words.startswith("unknown") else ""
        paper.entry(((Text("  "), 1), (paper.text(name, "dim"), width)), paper.text(words, look))


def _gpu(gpu: Mapping[str, Any]) -> tuple[str, ...]:
    pcie = gpu.get("pcie")
    pcie = pcie if isinstance(pcie, Mapping) else {}
    links = gpu.get("links")
    up = [one for one in _list(links) if isinstance(one, Mapping) and one.get("state") != "inactive"]
    nvlinks = "NVLinks unknown" if isinstance(links, Unknown) else f"{len(up)} of {len(_list(links))} NVLinks"
    return (
        f"GPU {value(gpu.get('index'))}",
        value(gpu.get("bus_id")),
        f"NUMA {value(gpu.get('numa'))}",
        f"PCIe gen {value(pcie.get('generation_max'))} x{value(pcie.get('width'))}",
        nvlinks if _list(links) or isinstance(links, Unknown) else "no NVLink",
        value(gpu.get("uuid"))[:UUID_SHOWN],
    )


def _nic(nic: Mapping[str, Any]) -> tuple[str, ...]:
    ports = [port for port in _list(nic.get("ports")) if isinstance(port, Mapping)]
    rates = [
        f"{value(port.get('link_layer'))} {_rate(port.get('rate_gbps'))} {value(port.get('state'))}" for port in ports
    ]
    return (
        value(nic.get("name")),
        value(nic.get("address")),
        f"NUMA {value(nic.get('numa'))}",
        value(nic.get("model")),
        ", ".join(rates) or "no port",
    )


def _rate(rate: Any) -> str:
    return f"{rate:g} Gb/s" if isinstance(rate, (int, float)) else "rate unknown"


def _rows(paper: Paper, rows: Sequence[tuple[str, ...]]) -> None:
    """Columns as wide as their widest cell; the last wraps."""
    shown = rows[:MOST_ROWS]
    widths = [max(len(row[column]) for row in shown) for column in range(len(shown[0]) - 1)] if shown else []
    for row in shown:
        cells = [(Text("  "), 1), *((paper.text(cell), width) for cell, width in zip(row, widths, strict=False))]
        paper.entry(cells, paper.text(row[-1]))
    if len(rows) > MOST_ROWS:
        paper.line(paper.text(f"and {len(rows) - MOST_ROWS} more; YAML and JSON have them", "dim"), indent=2)


def _list(found: Any) -> Sequence[Any]:
    return found if isinstance(found, (list, tuple)) else ()
