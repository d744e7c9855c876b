"""One side of a pair, in its pod: the ranks of this node, started by torchrun, and what they said."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.adapters.kube.job_record import PAIR
from rankmuster.bench.builtin.environment import safeguards
from rankmuster.bench.builtin.nodes import MARGIN, job_over_nodes, launching
from rankmuster.bench.builtin.orders import Backend
from rankmuster.bench.launch import start
from rankmuster.bench.launch.pairs import PROFILE
from rankmuster.bench.launch.torchrun import Torchrun
from rankmuster.bench.rails import Rail
from rankmuster.collect.deadline import Deadline
from rankmuster.kube.admission.pair_output import LATE, part_of
from rankmuster.model.benchmark import Profile

MOST_OUTPUT = 32 << 20
"""Bytes of what the ranks of one side say: some MB with every iteration."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairOrder:
    """`place`: JOB_COMPLETION_INDEX. `address`, `port`: where rank 0 is reached; each rail takes the next port.
    `seconds`: of each rail."""

    node: str
    place: int
    address: str
    port: int
    gpus: int
    seconds: float
    python: str
    rails: tuple[Rail, ...] = ()
    given: Mapping[str, str] = field(default_factory=dict)
    backend: Backend = Backend.NCCL
    profile: Profile = PROFILE


def pair_payload(order: PairOrder) -> tuple[Payload, str]:
    """The payload, and how it went here, in words."""
    parts: dict[str, bytes] = {}
    words = []
    rails: Sequence[Rail | None] = order.rails or (None,)
    for number, rail in enumerate(rails):
        output, outcome = _measured(order, rail, order.port + number)
        name = part_of(None if rail is None else rail.gpu)
        parts[name] = output
        if outcome.timed_out:
            parts[f"{name}{LATE}"] = b"1"
        words.append(outcome.story or "measured")
    return Payload(kind=PAIR, node=order.node, parts=parts), "; ".join(dict.fromkeys(words))


def _measured(order: PairOrder, rail: Rail | None, port: int) -> tuple[bytes, start.Outcome]:
    environment = {**safeguards(os.environ), **(rail.environment if rail is not None else {}), **order.given}
    job = job_over_nodes(
        order.profile,
        ("first", "second"),
        ranks_per_node=order.gpus,
        environment=environment,
        time_limit_s=order.seconds - MARGIN if order.seconds > 2 * MARGIN else order.seconds,
        python=order.python,
        backend=order.backend,
        address=order.address,
        port=port,
    )
    command = Torchrun(remote=(), python=order.python).commands(job)[order.place]
    kept = bytearray()

    def hear(_: int, data: bytes) -> None:
        kept.extend(data[: MOST_OUTPUT - len(kept)])

    (outcome,) = start.run(
        (command,), environment=launching(os.environ, environment), deadline=Deadline.after(order.seconds), hear=hear
    )
    return bytes(kept), outcome
