"""What came out of a drill: one line of JSON for each, and a table for a person."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field

from rankmuster.drill.result_table import result_table


@dataclass(frozen=True, slots=True)
class DrillResult:
    """One collect and one diagnosis of one fault.

    `setting`: what was varied ("ras_risk=never"). `expected`: in words; `said`: the verdict's class and sub-kind.
    `culprit`: the rank that has the fault, None where nobody does; `named`: the culprits of the verdict.
    `wrongs`: all that is not right, empty when it is; a step that failed is one too.
    `seconds`: how long each step took (start, inject, collect, diagnose). `bundle`: where the evidence lies.
    """

    fault: str
    backend: str
    ranks: int
    setting: str
    expected: str
    culprit: int | None
    said: str | None = None
    named: tuple[int, ...] = ()
    wrongs: tuple[str, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    bundle: str | None = None

    @property
    def right(self) -> bool:
        """Whether the verdict is what happened."""
        return not self.wrongs

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**asdict(self), "right": self.right}, ensure_ascii=False, sort_keys=True)


def _cells(result: DrillResult) -> tuple[str, ...]:
    seconds = result.seconds
    named = ", ".join(str(rank) for rank in result.named) or "-"
    return (
        result.fault,
        result.setting or "-",
        result.said or "-",
        named,
        "-" if result.culprit is None else str(result.culprit),
        *(f"{seconds[step]:.1f}" if step in seconds else "-" for step in ("collect", "diagnose")),
        "right" if result.right else "WRONG",
    )


def table(results: Sequence[DrillResult]) -> str:
    """A line for each result, and what is wrong below it."""
    head = ("fault", "setting", "verdict", "named", "culprit", "collect s", "diagnose s", "")
    rows = [_cells(result) for result in results]
    lines = result_table(head, rows, [result.wrongs for result in results])
    good = sum(result.right for result in results)
    lines.append(f"{good} of {len(results)} named what happened")
    return "\n".join(lines) + "\n"
