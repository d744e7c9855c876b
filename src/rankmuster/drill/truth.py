"""What is right to say of a fault, and in what a verdict differs from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from rankmuster.model.fault import FaultClass, Progress, Role, Subkind

MAJORITY = 3
"""Ranks of which one can be the odd one."""


class Naming(str, Enum):
    """Who has to be named culprit. MAY: the faulty rank or nobody, where the evidence does not separate it always."""

    MUST = "must"
    MAY = "may"
    NOBODY = "nobody"


@dataclass(frozen=True, slots=True)
class Truth:
    """The verdicts that are right. An empty tuple leaves that field open. `why`: where several are right, why.

    `majority`: what tells the rank is that the others agree. Of two ranks nobody has a majority, and naming nobody is
    right then (DESIGN, "Who is odd").
    """

    classes: tuple[FaultClass, ...]
    naming: Naming
    subkinds: tuple[Subkind, ...] = ()
    progress: tuple[Progress, ...] = ()
    why: str = ""
    majority: bool = False

    @property
    def in_words(self) -> str:
        """For a table: "collective_desync: missing_enter, or process_or_device_lost"."""
        classes = " or ".join(one.value for one in self.classes)
        kinds = " or ".join(kind.value for kind in self.subkinds)
        return f"{classes}: {kinds}" if kinds else classes


def culprits_of(verdict: Mapping[str, Any]) -> tuple[int, ...]:
    """The ranks that a verdict (as JSON, DESIGN "The verdict") names culprits, in order."""
    suspects = verdict.get("suspects") or ()
    named = (one.get("rank") for one in suspects if one.get("role") == Role.CULPRIT.value)
    return tuple(sorted({rank for rank in named if isinstance(rank, int)}))


def differences(verdict: Mapping[str, Any], truth: Truth, rank: int, ranks: int) -> tuple[str, ...]:
    """Everything in which `verdict` is not what is right of a fault by `rank` of `ranks`; empty when it is right."""
    found = []
    naming = Naming.MAY if truth.majority and ranks < MAJORITY and truth.naming is Naming.MUST else truth.naming
    said: dict[str, tuple[Enum, ...]] = {
        "class": truth.classes,
        "subclass": truth.subkinds,
        "progress": truth.progress,
    }
    for field, right in said.items():
        value, allowed = verdict.get(field), [one.value for one in right]
        if allowed and value not in allowed:
            found.append(f"{field} {value}, not {' or '.join(allowed)}")
    named = culprits_of(verdict)
    fitting: dict[Naming, tuple[tuple[int, ...], ...]] = {
        Naming.MUST: ((rank,),),
        Naming.MAY: ((rank,), ()),
        Naming.NOBODY: ((),),
    }
    if named not in fitting[naming]:
        right_ones = " or ".join(str(list(one)) for one in fitting[naming])
        found.append(f"culprits {list(named)}, not {right_ones}")
    return tuple(found)
