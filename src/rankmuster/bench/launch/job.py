"""What is to be started on which nodes, and the interface of the launchers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

_NODE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,252}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,100}")


class CannotLaunch(ValueError):
    """The job cannot be started by this launcher; the message says what to do instead."""


@dataclass(frozen=True, slots=True)
class Job:
    """`program`: the command line of every rank. `nodes`: by the names that the launcher knows them by, in order.

    `environment`: variables for the ranks. `seconds`: after which the launcher itself, where it can, ends the ranks.
    `address`: where rank 0 can be reached by the others, None: the first node's name; `port`: there. `mpi`: the program
    finds its peers by MPI (nccl-tests), so that only a launcher that speaks it will do.

    Raises CannotLaunch for names that no node or variable has.
    """

    program: tuple[str, ...]
    nodes: tuple[str, ...]
    ranks_per_node: int
    seconds: float
    environment: tuple[tuple[str, str], ...] = ()
    address: str | None = None
    port: int = 29_500
    mpi: bool = False

    def __post_init__(self) -> None:
        if not self.nodes or self.ranks_per_node < 1:
            raise CannotLaunch("a job needs at least one node and one rank on each")
        for node in self.nodes:
            if not _NODE.fullmatch(node):
                raise CannotLaunch(f"{node!r} is no name of a node")
        if len(set(self.nodes)) < len(self.nodes):
            raise CannotLaunch("a node is named twice")
        for name, _ in self.environment:
            if not _VARIABLE.fullmatch(name):
                raise CannotLaunch(f"{name!r} is no name of a variable")

    @property
    def ranks(self) -> int:
        """Of all nodes together."""
        return len(self.nodes) * self.ranks_per_node

    @property
    def meeting(self) -> tuple[tuple[str, str], ...]:
        """Variables by which ranks find rank 0."""
        return (("MASTER_ADDR", self.address or self.nodes[0]), ("MASTER_PORT", str(self.port)))

    def rank_command(self, *more: tuple[str, str]) -> tuple[str, ...]:
        """The program with its variables set by env(1): every launcher has a syntax of its own for that, with its own
        trouble with commas and quotes."""
        pairs = (*more, *self.environment)
        return ("env", *(f"{name}={value}" for name, value in pairs), *self.program) if pairs else self.program


@dataclass(frozen=True, slots=True)
class Command:
    """One process to start here. `node`: where it starts ranks, None: on all of them."""

    argv: tuple[str, ...]
    node: str | None = None


class Launcher(Protocol):
    """`name`: as on the command line."""

    @property
    def name(self) -> str: ...

    def commands(self, job: Job) -> tuple[Command, ...]:
        """Pure. What to start, all at once. Raises CannotLaunch."""
        ...
