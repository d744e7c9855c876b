"""PCIe: the width and generation that a GPU and a NIC run at against what both ends can do, and their error counters.

An idle GPU drops its generation to save power, never its width: the generation counts only as it was under load.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set

from rankmuster.admission.facts import UnderLoad
from rankmuster.admission.gathering import Answer, gathered
from rankmuster.admission.gpu_words import Said, subject
from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.node_path import GpuPath, Link, NodePath
from rankmuster.model.unknown import Unknown

RESEAT = "reseat the card or its riser, then admit again; a VM's slot is its host's"

REPLAYS = 100
"""Replays since the driver was loaded that are worth a word: training makes a handful, a bad slot thousands."""

_FATAL = ("pci / fatal errors", "pci / non fatal errors")
_RETRIED = ("pci / replays since reset", "pci / bad tlps", "pci / bad dllps", "pci / receiver errors")


def pcie_checks(
    path: NodePath, gpus: Sequence[GpuPath], load: Mapping[int, UnderLoad], before: Sequence[GpuPath] = ()
) -> list[Check]:
    """`load`: what was seen while the benchmark ran. `before`: the GPUs before it, for counters that rose."""
    earlier = {gpu.index: Said.of(gpu) for gpu in before}
    told = {key for gpu in gpus for key in (*_FATAL, *_RETRIED) if Said.of(gpu).number(key) is not None}
    widest = max((gpu.pcie.width_max for gpu in gpus if isinstance(gpu.pcie.width_max, int)), default=0)
    return [
        *gathered(
            "pcie-width",
            CheckGroup.HARDWARE,
            [_width(gpu, load.get(gpu.index), widest) for gpu in gpus],
            kind="GPUs",
            well=f"PCIe x{widest}, as wide as both ends can",
            required=True,
        ),
        *gathered(
            "pcie-generation",
            CheckGroup.HARDWARE,
            [_generation(gpu, load.get(gpu.index)) for gpu in gpus],
            kind="GPUs",
            well="PCIe at the generation that both ends can",
        ),
        *gathered(
            "pcie-errors",
            CheckGroup.HARDWARE,
            [_errors(gpu, earlier.get(gpu.index), told) for gpu in gpus],
            kind="GPUs",
            well="no PCIe errors",
        ),
        *_nics(path),
    ]


def _width(gpu: GpuPath, load: UnderLoad | None, widest: int) -> Answer:
    width, most = gpu.pcie.width, gpu.pcie.width_max
    if load is not None and load.pcie_width is not None:
        width = load.pcie_width
    if isinstance(width, Unknown) or isinstance(most, Unknown):
        reason = next(value.reason for value in (width, most) if isinstance(value, Unknown))
        return Answer(subject(gpu), CheckState.UNKNOWN, f"its PCIe width could not be read ({reason})")
    if not width or not most:
        return Answer(subject(gpu), CheckState.UNKNOWN, "the driver tells no PCIe width (x0)")
    if width < most:
        return Answer(subject(gpu), CheckState.FAIL, f"PCIe x{width} where both ends can x{most}", RESEAT)
    if most < widest:
        return Answer(subject(gpu), CheckState.FAIL, f"PCIe x{most} where its siblings have x{widest}", RESEAT)
    return Answer(subject(gpu), CheckState.PASS, "")


def _generation(gpu: GpuPath, load: UnderLoad | None) -> Answer:
    now, most = gpu.pcie.generation, gpu.pcie.generation_max
    seen = load.pcie_generation if load is not None else None
    if isinstance(most, Unknown):
        return Answer(subject(gpu), CheckState.UNKNOWN, f"its PCIe generation could not be read ({most.reason})")
    best = max([value for value in (seen, now) if isinstance(value, int)], default=None)
    if not best or not most:
        return Answer(subject(gpu), CheckState.UNKNOWN, "its PCIe generation could not be read")
    if best >= most:
        return Answer(subject(gpu), CheckState.PASS, "")
    if seen is None:
        words = f"PCIe generation {best} of {most} while idle, where it may drop; it was not seen under load"
        return Answer(subject(gpu), CheckState.UNKNOWN, words)
    words = f"PCIe generation {best} under load where both ends can {most}"
    return Answer(subject(gpu), CheckState.FAIL, words, RESEAT)


def _errors(gpu: GpuPath, earlier: Said | None, told: Set[str]) -> Answer:
    """`told`: counters that some GPU of the node tells; captured text has fewer than NVML."""
    said = Said.of(gpu)
    for key in _FATAL:
        count = said.number(key)
        if count:
            state = CheckState.FAIL if key == _FATAL[0] else CheckState.WARN
            return Answer(subject(gpu), state, f"{count} {key.removeprefix('pci / ')} on PCIe", RESEAT)
    for key in _RETRIED:
        count, was = said.number(key), earlier.number(key) if earlier is not None else None
        name = key.removeprefix("pci / ").removesuffix(" since reset")
        if count and was is not None and count > was:
            words = f"{count - was} PCIe {name} while the benchmark ran"
            return Answer(subject(gpu), CheckState.WARN, words, RESEAT)
        if count is not None and count >= REPLAYS:
            return Answer(subject(gpu), CheckState.WARN, f"{count} PCIe {name} since the driver was loaded", RESEAT)
    asked = [key for key in (*_FATAL, *_RETRIED) if key in told or key in said.values]
    silent = [key.removeprefix("pci / ") for key in asked if said.number(key) is None]
    if silent or not asked:
        which = f" ({', '.join(silent[:4])})" if silent else ""
        return Answer(subject(gpu), CheckState.UNKNOWN, f"its PCIe error counters could not be read{which}")
    return Answer(subject(gpu), CheckState.PASS, "")


def _nics(path: NodePath) -> list[Check]:
    if isinstance(path.nics, Unknown) or isinstance(path.pci, Unknown):
        return []
    links = {node.address: node.link for node in path.pci}
    answers = []
    for nic in path.nics:
        if not nic.rdma or nic.address is None:
            continue
        link = links.get(nic.address) if isinstance(nic.address, str) else None
        answers.append(_nic(nic.name, link))
    well = "PCIe as wide and as fast as both ends can"
    return gathered("nic-pcie", CheckGroup.NETWORK, answers, kind="NICs", well=well)


def _nic(name: str, link: Link | None) -> Answer:
    if link is None:
        return Answer(name, CheckState.UNKNOWN, "which PCI device it is could not be read")
    if isinstance(link.width, Unknown) or isinstance(link.width_max, Unknown):
        return Answer(name, CheckState.UNKNOWN, "its PCIe width could not be read")
    if link.width < link.width_max:
        return Answer(name, CheckState.FAIL, f"PCIe x{link.width} where it can x{link.width_max}", RESEAT)
    now, most = link.generation, link.generation_max
    if not isinstance(now, int) or not isinstance(most, int):
        return Answer(name, CheckState.UNKNOWN, "its PCIe generation could not be read")
    if now < most:
        return Answer(name, CheckState.FAIL, f"PCIe generation {now} where it can {most}", RESEAT)
    return Answer(name, CheckState.PASS, "")
