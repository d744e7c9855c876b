"""What differences of the way between devices do: /sys, switches, ACS, IOMMU, P2P, the words of the matrix."""

from __future__ import annotations

from rankmuster.baseline.fingerprint.effects import ADMISSION, BASELINE, DUMPS, Difference, Rule, Weight
from rankmuster.model.unknown import Unknown

NO_SYS = (
    "/sys not mounted: NCCL cannot see which NIC is near which GPU; it takes all for equally far, pairs GPUs with "
    "distant NICs and gives up GPUDirect. Mount /sys into the container"
)
_SYS = "NCCL src/graph/xml.cc walks /sys/class/pci_bus; `Topology detection : could not read ..., ignoring`"


def _acs_on(difference: Difference) -> bool:
    return difference.after != "off"


def _why_no_sys(difference: Difference) -> str:
    tree = difference.other.made_from.get("pci")
    return f"{NO_SYS} ({tree.reason})" if isinstance(tree, Unknown) else NO_SYS


def _redirecting(difference: Difference) -> str:
    nodes = difference.other.made_from.get("pci")
    found = [
        str(node.get("address"))
        for node in (nodes if isinstance(nodes, (list, tuple)) else ())
        if isinstance(node, dict) and node.get("acs_redirects") is True
    ]
    where = f" ({', '.join(found[:4])}{', ...' if len(found) > 4 else ''})" if found else ""
    return (
        f"ACS sends P2P traffic up to the root complex{where}: between GPUs behind one switch and between GPU and NIC "
        "it goes at a fraction, or through the IOMMU wrong; switch it off on these bridges"
    )


def _pairs(difference: Difference) -> str:
    kind = {"settings/p2p.read": "r", "settings/p2p.write": "w"}[difference.path]
    matrices = difference.other.made_from.get("matrices")
    matrix = matrices.get(kind) if isinstance(matrices, dict) else None
    rows = matrix.get("rows") if isinstance(matrix, dict) else None
    bad = [
        f"{row}-{column} {word}"
        for row, cells in (rows.items() if isinstance(rows, dict) else ())
        for column, word in (cells.items() if isinstance(cells, dict) else ())
        if row < column and word not in ("OK", "X")
    ]
    named = f" ({', '.join(bad[:4])}{f', and {len(bad) - 4} more pairs' if len(bad) > 4 else ''})" if bad else ""
    return (
        f"GPUs may not reach each other's memory{named}: NCCL goes through host memory (SHM) between them, at less "
        "than a tenth of NVLink's bandwidth; a pair with NVLink between it refuses to start"
    )


RULES = (
    Rule(
        "pci",
        Weight.PATH,
        lambda d: NO_SYS if isinstance(d.after, Unknown) else "/sys is there again: NCCL sees what is near what",
        _SYS,
        (BASELINE, DUMPS),
        lambda d: isinstance(d.after, Unknown) is not isinstance(d.before, Unknown),
        of_unknown=True,
    ),
    Rule("settings/sys.complete", Weight.PATH, _why_no_sys, _SYS, (BASELINE, DUMPS), lambda d: d.after == "no"),
    Rule(
        "settings/sys.complete",
        Weight.PATH,
        "/sys shows every device again: NCCL sees what is near what",
        _SYS,
        (BASELINE, DUMPS),
    ),
    Rule(
        "topology_source",
        Weight.CLASS,
        "one topology hash is over /sys, the other over the matrix of `nvidia-smi topo -m`, which knows no switches: "
        "the two are never equal, even of one machine",
        "docs/fingerprint.md",
        (BASELINE,),
    ),
    Rule(
        "topologyHash",
        Weight.CLASS,
        "another node model: parts are of another kind, or wired in another way, so NCCL finds other rings, trees and "
        "rails",
        "docs/fingerprint.md: hash over the canonical graph",
        (BASELINE, DUMPS),
    ),
    Rule(
        "settings/[!N]*",
        Weight.CLASS,
        "it matters on one side alone: only there does traffic cross PCIe between devices",
        "docs/fingerprint.md: a setting is of the class where it can matter",
        (BASELINE,),
        lambda d: d.before is None or d.after is None,
    ),
    Rule(
        "settings/acs",
        Weight.PATH,
        _redirecting,
        "NCCL user guide, Troubleshooting, PCI Access Control Services; PCIe base specification 6.12",
        (BASELINE, ADMISSION),
        _acs_on,
    ),
    Rule(
        "settings/acs",
        Weight.PATH,
        "ACS no longer redirects P2P traffic: it takes the short way",
        "NCCL user guide, Troubleshooting",
        (BASELINE,),
    ),
    Rule(
        "*iommu",
        Weight.PATH,
        "the IOMMU translates: P2P between devices goes through it and the root complex, slower or not at all; use "
        "iommu=pt, or off",
        "NCCL user guide, Troubleshooting, PCI Access Control Services; kernel: iommu_groups/*/type DMA or DMA-FQ",
        (BASELINE, ADMISSION),
        lambda d: d.after == "translated",
    ),
    Rule(
        "*iommu",
        Weight.CLASS,
        "the IOMMU is set otherwise; without translation it does not stand between devices",
        "kernel: iommu_groups/*/type identity",
        (BASELINE,),
    ),
    Rule(
        "settings/p2p.*",
        Weight.PATH,
        _pairs,
        "NCCL src/graph/paths.cc: P2P is disabled between connected GPUs -> SHM; an NVLink pair is a WARN and an error",
        (BASELINE, ADMISSION),
        lambda d: d.after != "OK",
    ),
    Rule(
        "settings/p2p.*",
        Weight.PATH,
        "GPUs reach each other's memory again: P2P instead of SHM",
        "NCCL src/graph/paths.cc",
        (BASELINE, ADMISSION),
    ),
    Rule(
        "bridges/*/link/width",
        Weight.SLOWER,
        "the link of a PCIe bridge is narrower: everything behind it shares that; NCCL takes the widest that it can be "
        "and does not see it",
        "NCCL src/graph/xml.cc: max_link_width",
        (ADMISSION,),
        lambda d: d.fell,
    ),
    Rule(
        "bridges/*/link/generation",
        Weight.SLOWER,
        "the link of a PCIe bridge runs at a lower speed: everything behind it shares that, and NCCL does not see it",
        "NCCL src/graph/xml.cc: max_link_speed",
        (ADMISSION,),
        lambda d: d.fell,
    ),
    Rule(
        "bridges/*/link/*_max",
        Weight.CLASS,
        "what a PCIe bridge can do is another thing",
        "NCCL src/graph/xml.cc",
        (BASELINE,),
    ),
    Rule(
        "bridges/*/link/*",
        Weight.NODE,
        "the link of a PCIe bridge is wider or faster",
        "NCCL src/graph/xml.cc",
        (ADMISSION,),
    ),
    Rule(
        "bridges/*", Weight.CLASS, "another PCIe switch or port lies there: other neighbours", _SYS, (BASELINE, DUMPS)
    ),
    Rule("matrices/?", Weight.NOTE, "the matrix was read on one side alone", "nvidia-smi topo"),
    Rule(
        "matrices/m*/*",
        Weight.PATH,
        "the pair is connected in another way: an NV word is the number of NVLinks, PIX to SYS go from one switch to "
        "across sockets",
        "nvidia-smi topo -m, its legend",
        (ADMISSION,),
    ),
    Rule(
        "matrices/*/*",
        Weight.PATH,
        "the driver answers otherwise about direct access of this pair",
        "nvidia-smi topo -p2p n, a, p (NVML nvmlDeviceGetP2PStatus)",
        (ADMISSION,),
    ),
    Rule(
        "cpu/*",
        Weight.CLASS,
        "another CPU or NUMA layout: NCCL has widths between sockets by CPU model, and limits P2P levels by vendor",
        "NCCL src/graph/topo.cc, topo.h: width between sockets by CPU",
        (BASELINE, DUMPS),
    ),
)
"""First that fits."""
