"""GPUs through the child that asks NVML: what each is, where its links lead, and every pair's matrices.

NVML may hang after a GPU fault. Then what that GPU has not said is Unknown with the call that hangs, and the child is
left behind; the others are told whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.fingerprint.links import read_links
from rankmuster.collect.node.nvml_session import NvmlSession
from rankmuster.evidence.gpu_facts import link_error_facts
from rankmuster.evidence.p2p_words import ANCESTOR_WORDS, P2P_WORDS, SELF
from rankmuster.evidence.pci import address
from rankmuster.evidence.pci_link import generation_number, width
from rankmuster.model.node_path import GpuPath, Link, Matrix
from rankmuster.model.unknown import Unknown

END_SECONDS = 0.5
"""Kept back from the deadline to end the child and to take its last lines."""


@dataclass
class Told:
    """What the child said. `absent`: there is no NVIDIA driver here; `reason`: why there are no GPUs in it."""

    driver: Mapping[str, str] = field(default_factory=dict)
    count: int | None = None
    gpus: dict[int, dict[str, Any]] = field(default_factory=dict)
    pairs: dict[tuple[int, int], Mapping[str, Any]] = field(default_factory=dict)
    hanging: dict[int, str] = field(default_factory=dict)
    complete: set[int] = field(default_factory=set)
    absent: bool = False
    reason: str | None = None
    ended: str | None = None  # how the child ended, where not well


def ask(deadline: Deadline) -> Told:
    """Everything that NVML says by the deadline. Never raises, never blocks longer."""
    told = Told()
    try:
        session = NvmlSession(seconds=deadline.remaining() + 1.0, mode="path")
    except OSError as error:
        told.reason = f"the process that asks NVML could not be started ({error.strerror})"
        return told
    until = deadline.before(END_SECONDS)
    ended = False
    while not ended and not session.ended and not until.passed:
        for line in session.lines(until):
            ended = ended or line.get("kind") == "end"
            _take(told, line)
    told.ended = end = session.close()
    if told.reason is None and told.count is None:
        how = f"its process {end}" if end else "it gave no answer in time"
        told.reason = f"NVML was asked to start and {how}; after a GPU fault (Xid 79, 119) the driver blocks"
    return told


def _take(told: Told, line: Mapping[str, Any]) -> None:
    kind = line.get("kind")
    if kind == "unusable":
        told.reason, told.absent = str(line.get("reason")), bool(line.get("absent"))
    elif kind == "driver":
        told.driver, told.count = line.get("facts") or {}, int(line["count"])
    elif kind == "slow":
        told.hanging[int(line["gpu"])] = f"{line.get('call')} for {float(line['seconds']):.0f} s"
    elif kind == "pair":
        told.pairs[int(line["gpu"]), int(line["other"])] = line
    elif kind == "gpu":
        entry = told.gpus.setdefault(int(line["gpu"]), {"facts": {}, "links": []})
        for key in ("uuid", "bus_id", "name", "error"):
            if line.get(key):
                entry[key] = line[key]
        entry["facts"].update(line.get("facts") or {})
        if line.get("link"):
            entry["links"].append(line["link"])
        if line.get("complete"):
            told.complete.add(int(line["gpu"]))
        told.hanging.pop(int(line["gpu"]), None)  # it came back


def gpu_paths(told: Told, numa: Mapping[str, int | Unknown]) -> tuple[GpuPath, ...] | Unknown:
    """One for each GPU by NVML's index. `numa`: of each PCI address."""
    if told.count is None:
        if told.absent:
            return ()
        return Unknown(f"NVML: {told.reason}")
    addresses = {
        index: place for index, entry in told.gpus.items() if (place := address(str(entry.get("bus_id") or "")))
    }
    found = []
    for index in range(told.count):
        entry = told.gpus.get(index, {"facts": {}, "links": []})
        why = Unknown(_why(told, index, entry))
        at = addresses.get(index)
        facts = {str(key): str(value) for key, value in entry["facts"].items()}
        facts.update(link_error_facts(entry["links"]))
        if entry.get("error"):
            facts["error"] = str(entry["error"])
        found.append(
            GpuPath(
                index=index,
                uuid=entry.get("uuid") or why,
                bus_id=at or why,
                model=entry.get("name") or why,
                vbios=facts.get("VBIOS Version") or why,
                numa=numa.get(at, Unknown(f"{at} is not in /sys")) if at is not None else why,
                pcie=_link(facts, why),
                links=read_links(entry["links"], addresses) if index in told.complete else why,
                mig=_mode(facts, "MIG Mode / Current", told, index, why),
                ecc=_mode(facts, "ECC Mode / Current", told, index, why),
                facts=facts,
            )
        )
    return tuple(found)


def _why(told: Told, index: int, entry: Mapping[str, Any]) -> str:
    if entry.get("error"):
        return f"NVML says of GPU {index}: {entry['error']}"
    if index in told.complete:
        return f"NVML does not tell it of GPU {index}"
    if index in told.hanging:
        return f"GPU {index} has not answered {told.hanging[index]}: the driver blocks, as after a GPU fault"
    if told.ended:
        return f"the process that asks NVML {told.ended} before it had told it of GPU {index}"
    return f"NVML had not told it of GPU {index} when the time ended"


def _link(facts: Mapping[str, str], why: Unknown) -> Link:
    place = "PCI / GPU Link Info"
    said = {
        key: facts.get(f"{place} / {key}")
        for key in (
            *("PCIe Generation / Current", "PCIe Generation / Max"),
            *("Link Width / Current", "Link Width / Max"),
        )
    }
    generation_now, generation_max, width_now, width_max = said.values()
    return Link(
        generation_number(generation_now, "NVML") if generation_now else why,
        width(width_now, "NVML") if width_now else why,
        generation_number(generation_max, "NVML") if generation_max else why,
        width(width_max, "NVML") if width_max else why,
    )


def _mode(facts: Mapping[str, str], key: str, told: Told, index: int, why: Unknown) -> str | Unknown:
    """A GPU that has answered everything and has no such mode says "N/A", as `nvidia-smi -q` prints it."""
    if key in facts:
        return facts[key]
    return "N/A" if index in told.complete and "error" not in facts else why


def matrices(told: Told) -> dict[str, Matrix]:
    """ "m" and "mp" of the GPUs, and r, w, n, a, p; a cell that NVML did not tell is missing, as is an empty matrix."""
    found: dict[str, dict[tuple[str, str], str]] = {}
    active = {
        index: [link for link in entry["links"] if link.get("state") in ("active", "sleep")]
        for index, entry in told.gpus.items()
    }
    buses = {index: address(str(entry.get("bus_id") or "")) for index, entry in told.gpus.items()}
    for (one, other), line in sorted(told.pairs.items()):
        cell = f"GPU{one}", f"GPU{other}"
        status = line.get("p2p") or {}
        for letter, number in status.items():
            found.setdefault(str(letter), {})[cell] = P2P_WORDS.get(number, "U")
        near = ANCESTOR_WORDS.get(line.get("ancestor", -1))
        if near:
            found.setdefault("mp", {})[cell] = near
        count = bonded(active.get(one, []), active.get(other, []), buses.get(other)) if status.get("n") == 0 else 0
        word = f"NV{count}" if count else near
        if word:
            found.setdefault("m", {})[cell] = word
    for cells in found.values():
        for index in range(told.count or 0):
            cells[f"GPU{index}", f"GPU{index}"] = SELF
    return {kind: Matrix(kind, cells) for kind, cells in sorted(found.items())}


def bonded(own: list[Mapping[str, Any]], theirs: list[Mapping[str, Any]], bus: str | None) -> int:
    """NVLinks between two GPUs: those that lead to it, or through switches as many as both have."""
    direct = sum(1 for link in own if link.get("remote") and address(str(link["remote"])) == bus and bus is not None)
    if direct:
        return direct
    if any(link.get("remote_type") == "gpu" for link in own):
        return 0
    return min(len(own), len(theirs))
