"""What a detector returns: a statement with its evidence and, where it goes that far, an accusation."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

from rankmuster.model.fault import CLASS_OF, Confidence, FaultClass, Phase, Scope, Subkind
from rankmuster.model.plane import Plane
from rankmuster.model.verdict import FirstDivergence


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU that could not be tied to a rank.

    `broken`: the GPU itself is at fault. Where it survived, its process is named if `pid` is known, and the GPU is only
    where that happened.
    """

    host: str | None
    name: str  # bus id, index or UUID as the evidence has it
    why: str
    broken: bool = True
    pid: int | None = None


@dataclass(frozen=True, slots=True)
class Accusation:
    """One explanation of the fault.

    `culprits`: ranks that the evidence separates from their victims; `suspects`: ranks it points at without that.
    `why`: per rank a phrase that follows "rank 3", so it begins with a verb. `confidence`: on this evidence alone.
    `at`: when it happened, unix seconds. `decisive`: evidence that cannot be read otherwise (DESIGN, "confidence").
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


def quoted(text: str, most: int = 200) -> str:
    """`text` as it stands within a sentence: on one line, without its own full stop, cut where it is longer."""
    line = " ".join(text.split()).rstrip(" .,;:")
    return line if len(line) <= most else line[:most].rstrip() + "…"


def counted(number: int, what: str, many: str | None = None) -> str:
    """`1 log`, `2 logs`; `many` where an s does not make the plural."""
    return f"{number} {what if number == 1 else many or what + 's'}"


def verb(subjects: Collection[object], one: str, many: str) -> str:
    """`rank 1 waits`, `ranks 1, 2 wait`: the form that goes with so many."""
    return one if len(subjects) == 1 else many
