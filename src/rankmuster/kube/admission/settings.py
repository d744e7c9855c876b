"""Settings of admission in a cluster, as frozen values; whoever reads the file checks them.

Without `admission` in the controller's `enable` nothing of this acts: NodeAdmission objects say what would be done.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.model.checked import Check, Part
from rankmuster.model.kube import NodeView

Seconds = Annotated[float, Check(gt=0, le=86_400)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AdmissionSettings(Part):
    """`nodes`: labels of those that are admitted at all, all of which they have; a value that is empty fits any. None:
    all nodes with GPUs. `exclude`: names that never are.

    `existing`: what is made of nodes that were here before the first NodeAdmission: `trust` lets them serve, and says
    that nothing was measured; `test` tests them all, a share at a time. `provisional`: what follows where nothing
    speaks against a node and too little for it: `hold` waits for a person, `admit` lets it in.

    `share`: of the nodes that serve already, so many may be kept out at once; what is over it stays untainted, which
    its condition says. One always may. `at_once`, `per_minute`: Jobs.

    `attempts`: Jobs that came to no result, after which a person is waited for; `backoff_seconds` after the first of
    them, doubled with each further one up to `backoff_most_seconds`. `settle_seconds`: for so long nothing about a node
    may have changed before it is tested: labels come one after the other.

    `ignore`: facts of a node whose change is none, as patterns of names. `image_counts`: whether another image of the
    Job is a change, after which the fleet is tested again.

    `pairs`: whether a node that passed alone is measured with a known good one: `off`; `try`: where one is idle within
    `pair_wait_seconds`; `require`: it is waited for, as long as there is any. `pair_floor`: GB/s that two of your nodes
    reach. `good`: nodes to pair with before others. `keep`: outdated NodeAdmissions of a node.
    """

    nodes: dict[str, str] = field(default_factory=dict)
    exclude: tuple[str, ...] = ()
    existing: Literal["trust", "test"] = "trust"
    provisional: Literal["hold", "admit"] = "hold"
    share: Annotated[float, Check(gt=0, le=1)] = 0.1
    at_once: Annotated[int, Check(ge=1, le=256)] = 4
    per_minute: Annotated[int, Check(ge=1, le=600)] = 10
    attempts: Annotated[int, Check(ge=1, le=20)] = 3
    backoff_seconds: Seconds = 60.0
    backoff_most_seconds: Seconds = 3_600.0
    settle_seconds: Annotated[float, Check(ge=0, le=86_400)] = 60.0
    ignore: tuple[str, ...] = ("kubeletVersion",)
    image_counts: bool = False
    pairs: Literal["off", "try", "require"] = "off"
    pair_floor: Annotated[float, Check(gt=0, le=100_000)] | None = None
    pair_wait_seconds: Seconds = 1_800.0
    good: tuple[str, ...] = ()
    keep: Annotated[int, Check(ge=1, le=100)] = 3
    job: JobShape = field(default_factory=JobShape)

    def selects(self, node: NodeView) -> bool:
        """Whether the node is admitted at all. Its view has to hold the labels that `nodes` names."""
        if node.name in self.exclude:
            return False
        return all(key in node.labels and value in ("", node.labels[key]) for key, value in self.nodes.items())

    def objection(self) -> str | None:
        """What does not fit together; None where all does."""
        if self.pairs != "off" and self.pair_floor is None:
            return (
                f"pairs: {self.pairs} needs pair_floor, the GB/s that two of your nodes reach together: without one no "
                "pair can pass; measure it once with `rankmuster bench pairs`"
            )
        if self.backoff_most_seconds < self.backoff_seconds:
            return "backoff_most_seconds is smaller than backoff_seconds"
        return None
