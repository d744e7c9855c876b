"""What a detector returns: a statement with its evidence and, where it goes that far, an accusation."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.model.fault import CLASS_OF, Confidence, FaultClass, Phase, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FirstDivergence


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that could not be tied to a rank."""

    host: str | None
    name: str  # bus id, index or UUID as the evidence has it
    why: str


@dataclass(frozen=True, slots=True)
class Accusation:
    """One explanation of the fault.

    `culprits`: ranks that the evidence separates from their victims; `suspects`: ranks it points at without that.
    `confidence`: on this evidence alone. `at`: when it happened, unix seconds. `decisive`: evidence that cannot be read
    otherwise (DESIGN, "confidence").
    """

    fault: FaultClass
    subkind: Subkind | None
    confidence: Confidence
    culprits: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    victims: tuple[int, ...] = ()
    hosts: tuple[str, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    links: tuple[str, ...] = ()
    why: dict[int, str] = field(default_factory=dict)
    divergence: FirstDivergence | None = None
    phase: Phase = Phase.SERVING
    scope: Scope | None = None
    at: float | None = None
    decisive: bool = False
    stop: bool = True  # it means that work has stopped (False: slow, or harm without a stop)


@dataclass(frozen=True, slots=True)
class Finding:
    """`would_decide`: what further evidence would settle it."""

    detector: str
    plane: Plane
    statement: str
    evidence: tuple[str, ...] = ()
    accusation: Accusation | None = None
    would_decide: str | None = None


def accuse(subkind: Subkind, confidence: Confidence, **fields: object) -> Accusation:
    """An accusation whose class follows from its sub-kind."""
    return Accusation(CLASS_OF[subkind], subkind, confidence, **fields)  # type: ignore[arg-type]


def ranks_text(ranks: tuple[int, ...] | list[int]) -> str:
    """`rank 2`, `ranks 0, 1, 3`, `ranks 0-7, 9`: runs of three and more are folded."""
    ordered = sorted(set(ranks))
    if not ordered:
        return "no rank"
    runs: list[list[int]] = []
    for rank in ordered:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    parts: list[str] = []
    for run in runs:
        parts.extend([f"{run[0]}-{run[-1]}"] if len(run) > 2 else [str(rank) for rank in run])
    return ("rank " if len(ordered) == 1 else "ranks ") + ", ".join(parts)
