"""What came out of the drilled incidents: one line of JSON each, a table, and all of them beside the budget."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rankmuster.drill.result_table import result_table
from rankmuster.incident.budget import Budget
from rankmuster.model.incident import Step

DETECTION_SECONDS, EVIDENCE_SECONDS, OVERHEAD_SECONDS = 15.0, 20.0, 5.0
"""What each may take at most. Overhead: all that is neither detection nor evidence nor the engine's own start."""


@dataclass(frozen=True, slots=True)
class IncidentResult:
    """One incident. `moments`, `seconds`: as `incident_times.Timeline`. `opened_by`, `outcome`, `course`, `steps`: as
    the journal has them. `expected`, `said`, `named`: the verdict and its culprits, `verdict` its file; `named_by`
    ("verdict", "watch") said all of it first, at `named_at`. `bundle`: its folder, where it is whole. `alarms`: of the
    watch before the fault. `hit`: attempts by how they ended. `trouble`: what broke, or was decided or ended otherwise.
    `wrongs`: all that is not as it should be, that too; empty when the run is right.
    """

    fault: str
    backend: str
    ranks: int
    graph: bool
    run: int
    expected: str
    folder: str
    incident: str | None = None
    opened_by: str | None = None
    outcome: str | None = None
    course: str | None = None
    said: str | None = None
    named: tuple[int, ...] = ()
    named_by: str | None = None
    named_at: float | None = None
    verdict: str | None = None
    bundle: str | None = None
    incidents: int = 0
    alarms: tuple[str, ...] = ()
    moments: Mapping[str, float | None] = field(default_factory=dict)
    seconds: Mapping[str, float | None] = field(default_factory=dict)
    steps: Mapping[str, str] = field(default_factory=dict)
    evidence_first: bool | None = None
    requests: int = 0
    hit: Mapping[str, int] = field(default_factory=dict)
    lost: int = 0
    after_stop: int = 0
    trouble: tuple[str, ...] = ()
    wrongs: tuple[str, ...] = ()

    @property
    def right(self) -> bool:
        """Whether all was as it should be."""
        return not self.wrongs

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**asdict(self), "right": self.right}, ensure_ascii=False, sort_keys=True)


def bars(result: IncidentResult) -> list[str]:
    """What of it took too long, or must not be."""
    found = []
    for name, most in (
        ("detection", DETECTION_SECONDS),
        ("evidence", EVIDENCE_SECONDS),
        ("overhead", OVERHEAD_SECONDS),
    ):
        took = result.seconds.get(name)
        if took is None:
            found.append(f"{name}: not measured, since something of it did not happen")
        elif took > most:
            found.append(f"{name} took {took:.1f} s, not at most {most:.0f} s")
    if result.evidence_first is not True:
        found.append("the evidence was not on disk before the group was ended")
    if result.lost:
        found.append(f"{result.lost} request(s) had no answer and no error")
    if result.after_stop:
        found.append(f"{result.after_stop} request(s) reached the sick group after new ones were stopped")
    return found


COLUMNS = ("detection", "evidence", "decide", "terminate", "engine", "overhead", "total")


def _cells(result: IncidentResult) -> tuple[str, ...]:
    times = (result.seconds.get(name) for name in COLUMNS)
    return (
        result.fault,
        str(result.run),
        *("-" if one is None else f"{one:.1f}" for one in times),
        result.said or "-",
        result.outcome or "-",
        " ".join(f"{how} {count}" for how, count in result.hit.items()) or "-",
        "right" if result.right else "WRONG",
    )


def table(results: Sequence[IncidentResult]) -> str:
    """A line for each, seconds, and what is wrong below it."""
    head = ("run", "no", *COLUMNS, "verdict", "outcome", "hit", "")
    rows = [_cells(result) for result in results]
    lines = result_table(head, rows, [result.wrongs for result in results])
    return "\n".join(lines) + "\n"


def summary(results: Sequence[IncidentResult], budget: Budget | None = None) -> dict[str, Any]:
    """All runs in a few numbers: median and worst of each part, beside what it may take."""
    allowed = budget if budget is not None else Budget()
    most: dict[str, float] = {
        "detection": DETECTION_SECONDS,
        "evidence": EVIDENCE_SECONDS,
        "overhead": OVERHEAD_SECONDS,
        "stop_traffic": allowed.of(Step.STOP_TRAFFIC),
        "drain": allowed.of(Step.DRAIN),
        "decide": allowed.of(Step.DIAGNOSE) + allowed.of(Step.DECIDE),
        "terminate": allowed.of(Step.TERMINATE),
        "start": allowed.of(Step.START),
        "verify": allowed.of(Step.VERIFY),
        "restore": allowed.of(Step.RESTORE),
    }
    names = dict.fromkeys(name for result in results for name in result.seconds)
    parts: dict[str, Any] = {}
    for name in names:
        took = np.array([one for result in results if (one := result.seconds.get(name)) is not None])
        parts[name] = {
            "runs": len(took),
            "median": float(np.median(took)) if len(took) else None,
            "worst": float(took.max()) if len(took) else None,
            "budget": most.get(name),
        }
    faults = dict.fromkeys(result.fault for result in results)
    return {
        "runs": len(results),
        "right": sum(result.right for result in results),
        "seconds": parts,
        "evidence_first": sum(result.evidence_first is True for result in results),
        "requests": sum(result.requests for result in results),
        "hit": _added([result.hit for result in results]),
        "lost": sum(result.lost for result in results),
        "after_stop": sum(result.after_stop for result in results),
        "by_fault": {
            fault: {
                "runs": sum(result.fault == fault for result in results),
                "right": sum(result.fault == fault and result.right for result in results),
            }
            for fault in faults
        },
    }


def summary_text(numbers: Mapping[str, Any]) -> str:
    """The same for a person."""
    lines = [f"{'seconds':14}{'median':>8}{'worst':>8}{'budget':>8}"]
    for name, part in numbers["seconds"].items():
        cells = ("-" if one is None else f"{one:.1f}" for one in (part["median"], part["worst"], part["budget"]))
        lines.append(f"{name:14}" + "".join(f"{cell:>8}" for cell in cells))
    lines.append(
        f"{numbers['right']} of {numbers['runs']} right; evidence before the end in {numbers['evidence_first']}; "
        f"{numbers['requests']} requests, {numbers['lost']} lost without an error, "
        f"{numbers['after_stop']} to a sick group after the stop"
    )
    return "\n".join(lines) + "\n"


def _added(counts: Sequence[Mapping[str, int]]) -> dict[str, int]:
    names = sorted({name for one in counts for name in one})
    return {name: sum(one.get(name, 0) for one in counts) for name in names}
