"""How ranks find each other and hand rank 0 their numbers: over torch's key-value store, beside what is measured.

The store is a file on one node and a TCP server of rank 0's over several; no process group is needed for it, so that a
benchmark of NCCL opens no gloo connections, which need a host name that resolves.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rankmuster.bench.builtin import lazy

DEFAULT_PORT = 29_500  # torch's own, where the launcher names none


@dataclass(frozen=True, slots=True)
class Place:
    """This process among all. `local_rank`: on its node; None where the launcher does not say."""

    rank: int
    ranks: int
    local_rank: int | None
    launcher: str


_NAMES = (
    ("torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK"),
    ("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    ("Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
)
"""Which variables each launcher numbers its processes by. Slurm last: mpirun and torchrun run inside its jobs too."""


def place_of(environment: Mapping[str, str]) -> Place:
    """Raises ValueError where no launcher has numbered this process."""
    for launcher, rank, ranks, local in _NAMES:
        numbers = [environment.get(name, "") for name in (rank, ranks, local)]
        if numbers[0].isdigit() and numbers[1].isdigit() and int(numbers[0]) < int(numbers[1]):
            return Place(int(numbers[0]), int(numbers[1]), int(numbers[2]) if numbers[2].isdigit() else None, launcher)
    tried = ", ".join(f"{rank}/{ranks}" for _, rank, ranks, _ in _NAMES)
    raise ValueError(f"no launcher says which rank this process is (looked for {tried})")


def first_host(nodelist: str) -> str:
    """The first name of Slurm's list of nodes: `gpu[003-004,7],x` -> `gpu003`, where rank 0 runs."""
    head, bracket, rest = nodelist.partition("[")
    if not bracket or "," in head:
        return head.partition(",")[0]
    numbers, _, after = rest.partition("]")
    first = numbers.replace("-", ",").partition(",")[0]
    return head + first + after.partition(",")[0]


def address_of(environment: Mapping[str, str]) -> tuple[str, int]:
    """Where rank 0's store listens: MASTER_ADDR and MASTER_PORT, or the first node of the Slurm step.

    Raises ValueError where nothing says so.
    """
    port = environment.get("MASTER_PORT", "")
    number = int(port) if port.isdigit() else DEFAULT_PORT
    nodes = environment.get("SLURM_STEP_NODELIST") or environment.get("SLURM_JOB_NODELIST") or ""
    host = environment.get("MASTER_ADDR") or first_host(nodes)
    if not host:
        raise ValueError("nothing says where rank 0 is: set MASTER_ADDR (and MASTER_PORT) for all ranks")
    return host, number


class Control:
    """Over a store. Each gathering has a number, which is the same on all ranks since all make the same calls."""

    def __init__(self, store: Any, rank: int, ranks: int) -> None:
        self.store, self.rank, self.ranks = store, rank, ranks
        self._number = 0

    def gather(self, value: Any) -> list[Any]:
        """Plain JSON values of all ranks, at rank 0; empty elsewhere. Waits for the last one."""
        self._number += 1
        if self.rank:
            self.store.set(f"{self._number}/{self.rank}", json.dumps(value))
            return []
        others = [self._taken(f"{self._number}/{rank}") for rank in range(1, self.ranks)]
        return [value, *others]

    def share(self, value: Any) -> Any:
        """Rank 0's value, at all ranks."""
        self._number += 1
        key = f"{self._number}/shared"
        if self.rank == 0:
            self.store.set(key, json.dumps(value))
            return value
        return json.loads(self.store.get(key))

    def agree(self, value: Any) -> list[Any]:
        """Plain JSON values of all ranks, at all ranks."""
        found: list[Any] = self.share(self.gather(value))
        return found

    def _taken(self, key: str) -> Any:
        return json.loads(self.store.get(key))


def file_store(path: str, ranks: int, seconds: float) -> Any:
    """A store in a file, for the ranks of one node: no port is opened. `seconds`: for any one answer."""
    dist = lazy.dist()

    store = dist.FileStore(path, ranks)
    store.set_timeout(timedelta(seconds=seconds))
    return store


def tcp_store(environment: Mapping[str, str], rank: int, seconds: float) -> Any:
    """Raises what torch raises where rank 0 cannot be reached in `seconds`, or its port is taken."""
    dist = lazy.dist()

    host, port = address_of(environment)
    # torchrun's agent may serve a store at that very port already; its ranks then are clients, rank 0 too.
    served = environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return dist.TCPStore(host, port, None, rank == 0 and not served, timedelta(seconds=seconds), wait_for_workers=False)
