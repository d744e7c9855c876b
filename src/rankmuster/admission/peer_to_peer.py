"""GPU pairs: where NVLinks connect two GPUs, each must be able to read and write the other's memory.

Where NVML says that it cannot, NCCL goes through host memory (SHM), at a tenth of the speed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from rankmuster.admission.gathering import named
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import Matrix, NodePath
from rankmuster.model.unknown import Unknown

WORDS = {
    "CNS": "the chipset does not support it",
    "GNS": "the GPU does not support it",
    "TNS": "the topology does not support it",
    "DR": "switched off in the driver's settings",
    "NS": "not supported",
    "U": "unknown",
}
ADVICE = (
    "look at the driver's settings (NVreg_RegistryDwords, GRDMA), MIG, the IOMMU and the fabric manager; "
    "nvidia-smi topo -p2p r shows it"
)
_NEEDED = {"r": "read", "w": "write"}
_KINDS = {"r": "read", "w": "write", "n": "NVLink", "a": "atomics"}


def peer_checks(path: NodePath) -> list[Check]:
    """The P2P matrices of read and write, NVLink and atomics; nothing for a node of one GPU."""
    gpus = () if isinstance(path.gpus, Unknown) else path.gpus
    if len(gpus) < 2:
        return []
    labels = [f"GPU{gpu.index}" for gpu in gpus]
    pairs = list(combinations(labels, 2))
    topology = path.matrices.get("m")
    bound = {pair for pair in pairs if _nvlinks(topology, pair)}
    checks = [check for kind in _KINDS for check in _matrix(kind, path.matrices, pairs, bound)]
    return [*checks, *_uneven(topology, bound)]


def _nvlinks(topology: Matrix | None, pair: tuple[str, str]) -> int:
    """How many NVLinks the pair shares; 0 for none, or where it is not known."""
    cells = topology.cells if topology is not None else {}
    words = (cells.get(pair, ""), cells.get((pair[1], pair[0]), ""))
    return max((int(word[2:]) for word in words if word.startswith("NV") and word[2:].isdecimal()), default=0)


def _matrix(
    kind: str, matrices: Mapping[str, Matrix], pairs: list[tuple[str, str]], bound: set[tuple[str, str]]
) -> list[Check]:
    name, group, word = f"p2p-{_KINDS[kind].lower()}", CheckGroup.PEER_TO_PEER, _KINDS[kind]
    required = kind in _NEEDED
    matrix = matrices.get(kind)
    cells = matrix.cells if matrix is not None else {}
    unknown = [f"{a}-{b}" for a, b in pairs if (a, b) not in cells or (b, a) not in cells]
    if unknown:
        if not required:
            return []
        words = f"whether they can {word} each other's memory could not be read"
        return [Check(name, group, CheckState.UNKNOWN, _pairs(unknown, pairs), words, ADVICE, required=True)]
    checks = []
    uneven = [f"{a}-{b}" for a, b in pairs if cells[a, b] != cells[b, a]]
    if uneven and required:
        words = f"peer-to-peer {word} differs by direction"
        checks.append(Check(name, group, CheckState.FAIL, _pairs(uneven, pairs), words, ADVICE, required=True))
    broken: dict[str, list[str]] = {}
    for a, b in pairs:
        bad = next((cells[pair] for pair in ((a, b), (b, a)) if cells[pair] != "OK"), None)
        if bad is not None and ((a, b) in bound or not bound):
            broken.setdefault(bad, []).append(f"{a}-{b}")
    for bad, those in broken.items():
        why = WORDS.get(bad, bad)
        if not bound:  # PCIe alone: a setting of the class, which its history shows
            if required:
                words = f"no peer-to-peer {word} over PCIe ({why}): NCCL goes through host memory"
                checks.append(Check(name, group, CheckState.WARN, _pairs(those, pairs), words, ADVICE, required=True))
            continue
        state = CheckState.WARN if kind == "a" else CheckState.FAIL
        words = f"connected by NVLink, and peer-to-peer {word} is not OK: {why} ({bad})"
        checks.append(Check(name, group, state, _pairs(those, pairs), words, ADVICE, required=required))
    if not checks:
        words = f"peer-to-peer {word} is OK between all GPUs" + (" that NVLinks connect" if bound else "")
        checks.append(Check(name, group, CheckState.PASS, f"{len(pairs)} pairs", words, required=required))
    return checks


def _pairs(those: Sequence[str], pairs: Sequence[tuple[str, str]]) -> str:
    return f"all {len(pairs)} pairs" if len(those) == len(pairs) else named(those)


def _uneven(topology: Matrix | None, bound: set[tuple[str, str]]) -> list[Check]:
    """Behind NVSwitches all pairs share as many NVLinks; direct ones (V100, A100 of four) may differ by design."""
    if topology is None:
        return []
    counts = {pair: _nvlinks(topology, pair) for pair in bound}
    lopsided = [f"{a}-{b}" for a, b in sorted(bound) if topology.cells.get((a, b)) != topology.cells.get((b, a))]
    if not lopsided or not counts:
        return []
    words = "the topology matrix shows another connection in one direction than in the other"
    return [Check("p2p-topology", CheckGroup.PEER_TO_PEER, CheckState.FAIL, named(lopsided), words, ADVICE)]
