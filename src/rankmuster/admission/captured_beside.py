"""Captured text beside a fingerprint: what `nvidia-smi` says of the same GPUs, for the checks of their health.

A fingerprint is of one moment, and rows wait for a reset, clocks are held back and links go down later. The younger of
the two is believed, where both say something; text of another node's GPUs contradicts the fingerprint.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timezone

from rankmuster.evidence.node_path import NotOneNode, from_evidence
from rankmuster.evidence.pci import bus_id
from rankmuster.model.node_path import GpuPath, Link, NodePath, NvLink
from rankmuster.model.topology import GpuFacts, NvlinkStatus
from rankmuster.model.unknown import Unknown

CLOCKS = ("Clocks Event Reasons / ", "Clocks Throttle Reasons / ")

ANY_ZONE_S = 14 * 3600.0
"""`nvidia-smi -q` writes local time without a zone: so far it may be off from UTC (UTC-12 to UTC+14)."""

_STAMP = re.compile(rb"^Timestamp\s{1,100}:\s(\w{3} \w{3} [ \d]\d \d\d:\d\d:\d\d \d{4})\s*$", re.MULTILINE)
_MODES = ("Enabled", "Disabled")


class OtherNode(Exception):
    """The text is not of the node that the fingerprint names; the message says how it differs, and names the text."""


@dataclass(frozen=True, slots=True)
class Captured:
    """One text. `at`: unix seconds, the latest moment at which it can have been written; `source`: the file's name."""

    source: str
    at: float
    observations: tuple[object, ...]

    @property
    def of_gpus(self) -> bool:
        return any(isinstance(each, (GpuFacts, NvlinkStatus)) for each in self.observations)


def written_at(data: bytes, file_time: float) -> float:
    """When a text was written at the latest: what it says itself, in whatever zone, else its file's time."""
    found = _STAMP.search(data[:4096])
    if found is None:
        return file_time
    try:
        said = datetime.strptime(found[1].decode(), "%a %b %d %H:%M:%S %Y").replace(tzinfo=timezone.utc)
    except ValueError:
        return file_time
    return min(file_time, said.timestamp() + ANY_ZONE_S)


def with_captured(path: NodePath, texts: Sequence[Captured], host: str | None = None) -> NodePath:
    """The fingerprint's path with what the texts say of its GPUs, older ones first. Raises OtherNode."""
    for text in sorted((text for text in texts if text.of_gpus), key=lambda text: text.at):
        path = _with(path, text, host)
    return path


def with_clocks(path: NodePath, told: Sequence[object]) -> NodePath:
    """What held clocks back when `nvidia-smi -q` was asked: it changes by the second, and is no part of a path."""
    if isinstance(path.gpus, Unknown):
        return path
    gpus = []
    for gpu in path.gpus:
        clocks = {
            key: value
            for each in told
            if isinstance(each, GpuFacts) and each.uuid is not None and each.uuid == gpu.uuid
            for key, value in each.facts.items()
            if key.startswith(CLOCKS)
        }
        gpus.append(replace(gpu, facts={**clocks, **gpu.facts}))
    return replace(path, gpus=tuple(gpus))


def _with(path: NodePath, text: Captured, host: str | None) -> NodePath:
    try:
        seen = with_clocks(from_evidence(text.observations, host=host), text.observations)
    except NotOneNode as error:
        raise OtherNode(f"{text.source} is not of one node: {error}") from error
    if isinstance(path.gpus, Unknown) or isinstance(seen.gpus, Unknown):
        return path
    gpus = list(path.gpus)
    for gpu in seen.gpus:
        place = _place(gpu, gpus)
        if place is None:
            known = ", ".join(str(each.uuid if isinstance(gpu.uuid, str) else each.bus_id) for each in gpus[:8])
            named = gpu.uuid if isinstance(gpu.uuid, str) else gpu.bus_id
            raise OtherNode(f"{text.source} is of GPU {named}, and the fingerprint beside it of {known}")
        if place >= 0:
            gpus[place] = _newer(gpus[place], gpu, text) if not text.at < path.taken_at else _filled(gpus[place], gpu)
    return replace(path, gpus=tuple(gpus))


def _place(gpu: GpuPath, known: Sequence[GpuPath]) -> int | None:
    """Which of the fingerprint's GPUs it is; None for another node's, -1 where nobody can say."""
    if isinstance(gpu.uuid, str):
        uuids = [each.uuid for each in known]
        if gpu.uuid in uuids:
            return uuids.index(gpu.uuid)
        if all(isinstance(uuid, str) for uuid in uuids):
            return None
    if isinstance(gpu.bus_id, str):
        places = [bus_id(each.bus_id) if isinstance(each.bus_id, str) else None for each in known]
        if bus_id(gpu.bus_id) in places:
            return places.index(bus_id(gpu.bus_id))
        return None if None not in places else -1
    return -1


def _newer(known: GpuPath, seen: GpuPath, text: Captured) -> GpuPath:
    for name in ("mig", "ecc"):
        before, after = getattr(known, name), getattr(seen, name)
        if before != after and before in _MODES and after in _MODES:
            raise OtherNode(
                f"{text.source} shows GPU {known.index} with {name.upper()} {after}, {before} in the fingerprint: the "
                "node was changed in between; take its fingerprint again"
            )
    return replace(
        known,
        facts={**known.facts, **seen.facts},
        pcie=_link(known.pcie, seen.pcie),
        links=_links(known.links, seen.links),
    )


def _filled(known: GpuPath, seen: GpuPath) -> GpuPath:
    return replace(known, facts={**seen.facts, **known.facts})


def _link(known: Link, seen: Link) -> Link:
    told = {one.name: getattr(seen, one.name) for one in fields(Link)}
    return replace(known, **{name: value for name, value in told.items() if not isinstance(value, Unknown)})


def _links(known: tuple[NvLink, ...] | Unknown, seen: tuple[NvLink, ...] | Unknown) -> tuple[NvLink, ...] | Unknown:
    """The states that were seen; what a link is stays as the fingerprint has it."""
    if isinstance(known, Unknown) or isinstance(seen, Unknown):
        return seen if isinstance(known, Unknown) else known
    states = {link.link: link.state for link in seen if isinstance(link.state, str)}
    return tuple(replace(link, state=states.get(link.link, link.state)) for link in known)
