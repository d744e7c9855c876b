"""A kernel log as the checks need it: this boot's events, and whether its silence proves anything."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.evidence.blob import Blob
from rankmuster.evidence.kernel_boots import KernelReach, Reach, last_boot
from rankmuster.evidence.packed_stream import Allowance
from rankmuster.evidence.plain_bytes import plain
from rankmuster.evidence.take import take
from rankmuster.evidence.unpack import unpack
from rankmuster.model.kernel import KernelEvent, ServiceEvent, SXid, Xid
from rankmuster.model.unknown import Unknown

NOT_GIVEN = Unknown("no kernel log was given")


@dataclass(frozen=True, slots=True)
class KernelRead:
    """`events`: of this boot, as far back as the log goes; Unknown where there is no log. `whole`: to the boot."""

    events: tuple[Xid | SXid | KernelEvent, ...] | Unknown
    services: tuple[ServiceEvent, ...]
    whole: bool


def observed(data: bytes, source: str) -> list[object]:
    """What a log says, and how far back it goes, as the readers of recorded files tell it. `data`: may be packed."""
    unpacked = next((part for part in unpack(Blob(source, data), Allowance()) if isinstance(part, Blob)), None)
    blob, _ = plain(unpacked or Blob(source, b""))
    found = last_boot(blob.data)
    reach = KernelReach(source, found.reach, found.problem)
    return [*take(Blob(source, found.data)).observations, reach]


def kernel_read(data: bytes, source: str) -> KernelRead:
    """One log."""
    return kernel_of(observed(data, source))


def kernel_of(observations: Iterable[object]) -> KernelRead:
    """Of everything that was read. Several logs are of one node and boot: one that is whole is enough."""
    found = list(observations)
    events = tuple(each for each in found if isinstance(each, (Xid, SXid, KernelEvent)))
    services = tuple(each for each in found if isinstance(each, ServiceEvent))
    reaches = [each for each in found if isinstance(each, KernelReach)]
    whole = any(each.reach is Reach.WHOLE for each in reaches)
    logs = [each for each in reaches if each.reach is not Reach.NO_LOG]
    if events or logs:
        return KernelRead(events, services, whole)
    if not reaches:
        return KernelRead(NOT_GIVEN, services, whole=False)
    said = "; ".join(f"{each.source} {each.problem}" for each in reaches[:4])
    return KernelRead(Unknown(said), services, whole=False)
