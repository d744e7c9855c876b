"""Where the instance's RAS is to be asked, from the settings of its processes and their network."""

from __future__ import annotations

import math
from dataclasses import dataclass

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.address import Address, addresses, endpoint
from rankmuster.collect.ras.client import Service
from rankmuster.collect.ras.namespace import Network, Side, network_of, own_socket, sockets_in
from rankmuster.collect.target import Target


@dataclass(frozen=True, slots=True)
class Place:
    """`where`: as the setting names it; `found`: every address of that; `network`: None where no process is known."""

    where: str
    found: tuple[Address, ...]
    network: Network | None

    def service(self, scene: Scene) -> Service:
        """A new list of attempts at this place."""
        sockets = sockets_in(self.network) if self.network is not None else own_socket
        return Service(self.found, sockets, scene.now, scene.clock)

    @property
    def note(self) -> str:
        """Which network it is in, a word or a sentence."""
        return "" if self.network is None else self.network.note or self.network.side.value

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be wrong with looking there."""
        if self.network is None or self.network.side is not Side.UNKNOWN:
            return ()
        return (f"{self.network.note}: RAS was looked for in this program's own network",)


def locate(scene: Scene, target: Target, deadline: Deadline) -> Place:
    """Reads NCCL_RAS_ADDR and compares network namespaces. Raises address.AddressUnusable."""
    where = endpoint(target.setting("NCCL_RAS_ADDR"))
    processes = target.workers or target.processes
    network = network_of(scene.machine.proc, processes[0].pid) if processes else None
    return Place(str(where), addresses(where, deadline), network)


def switched_off(target: Target) -> bool:
    """NCCL_RAS_ENABLE as NCCL reads numbers: 0 switches off, what is no number leaves the default."""
    text = (target.setting("NCCL_RAS_ENABLE") or "").strip()
    try:
        return bool(text) and int(text, 0) == 0
    except ValueError:
        return bool(text) and set(text) == {"0"}


def timeout_factor(target: Target) -> float:
    """NCCL_RAS_TIMEOUT_FACTOR, by which NCCL multiplies its own time-outs; a float from 2.32 on."""
    try:
        factor = float(target.setting("NCCL_RAS_TIMEOUT_FACTOR") or 1)
    except ValueError:
        return 1.0
    return factor if math.isfinite(factor) and factor > 0 else 1.0
