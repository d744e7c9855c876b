"""What came out of a watched job: one line of JSON for each run, a table, and all runs of a day in a few numbers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from rankmuster.drill.result_table import result_table

WANTED_SECONDS = 15.0
"""In which a stop must be told (docs/watch.md; the goal is 95 of 100)."""


@dataclass(frozen=True, slots=True)
class WatchResult:
    """One run of one fault, or of one control.

    `told`: "stopped", or "gone" where every process had ended; None for neither. `seconds`: from the end of the last
    step that was finished to the state that says so; `from_fault`: from the deed itself. `alarms`: what was told that
    was none ("stopped after 31 s: why"), before the fault or in a control. `named`, `suspects`: ranks with the role
    culprit or suspect in the state that told. `naming`: "right", "wrong" or "none". `collects`: bundles that were made.
    `verdict`: of `diagnose` on the first; `verdict_wrongs`: in what it is not right. `states`: looks in each state.
    `cpu_share`: processor seconds a second that the watch took before the fault, `rss`: bytes. `wrongs`: all that is
    not as it should be; empty when the run is right.
    """

    name: str
    control: bool
    backend: str
    ranks: int
    graph: bool
    run: int
    culprit: int | None = None
    told: str | None = None
    seconds: float | None = None
    from_fault: float | None = None
    named: tuple[int, ...] = ()
    suspects: tuple[int, ...] = ()
    naming: str | None = None
    collects: int = 0
    verdict: str | None = None
    verdict_wrongs: tuple[str, ...] = ()
    alarms: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)
    watched_seconds: float = 0.0
    cpu_share: float | None = None
    rss: int | None = None
    wrongs: tuple[str, ...] = ()
    reason: str | None = None
    folder: str | None = None

    @property
    def right(self) -> bool:
        """Whether the watch said what was so."""
        return not self.wrongs

    def to_json(self) -> str:
        """One line."""
        return json.dumps({**asdict(self), "right": self.right}, ensure_ascii=False, sort_keys=True)


def _cells(result: WatchResult) -> tuple[str, ...]:
    who = ", ".join(str(rank) for rank in result.named or result.suspects) or "-"
    return (
        result.name,
        str(result.run),
        result.told or "-",
        "-" if result.seconds is None else f"{result.seconds:.1f}",
        who if result.named or not result.suspects else f"({who})",
        "-" if result.culprit is None else str(result.culprit),
        str(result.collects),
        result.verdict or "-",
        "-" if result.cpu_share is None else f"{100 * result.cpu_share:.2f}",
        "-" if not result.rss else f"{result.rss / 1e6:.0f}",
        " ".join(f"{state} {looks}" for state, looks in result.states.items()) if result.control else "",
        "right" if result.right else "WRONG",
    )


def table(results: Sequence[WatchResult]) -> str:
    """A line for each, and what is wrong below it. Suspects that are no culprits stand in brackets."""
    head = ("run", "no", "told", "after s", "named", "culprit", "bundles", "verdict", "cpu %", "MB", "looks", "")
    rows = [_cells(result) for result in results]
    lines = result_table(head, rows, [result.wrongs for result in results])
    return "\n".join(lines) + "\n"


def summary(results: Sequence[WatchResult]) -> dict[str, Any]:
    """All runs in a few numbers; times in seconds, None where nothing was told."""
    faults = [one for one in results if not one.control]
    controls = [one for one in results if one.control]
    told = np.array([one.seconds for one in faults if one.seconds is not None])
    within = int((told <= WANTED_SECONDS).sum())
    return {
        "faults": {
            "runs": len(faults),
            "told": len(told),
            "within_15_s": within,
            "share_within_15_s": within / len(faults) if faults else None,
            **{f"p{part}": float(np.percentile(told, part)) if len(told) else None for part in (50, 95)},
            "max": float(told.max()) if len(told) else None,
            "suspects": {kind: sum(one.naming == kind for one in faults) for kind in ("right", "wrong", "none")},
            "collected_once": sum(one.collects == 1 for one in faults),
            "verdict_right": sum(one.verdict is not None and not one.verdict_wrongs for one in faults),
        },
        "controls": {
            "runs": len(controls),
            "seconds": sum(one.watched_seconds for one in controls),
            "right": sum(one.right for one in controls),
        },
        "false_alarms": sum(len(one.alarms) for one in results),
        "runs_with_false_alarms": sum(bool(one.alarms) for one in results),
        "right": sum(one.right for one in results),
    }


def summary_text(numbers: Mapping[str, Any]) -> str:
    """The same for a person."""
    faults, controls = numbers["faults"], numbers["controls"]
    lines = []
    if faults["runs"]:
        line = f"{faults['within_15_s']} of {faults['runs']} stops told within {WANTED_SECONDS:.0f} s"
        if faults["told"]:
            line += f" (p50 {faults['p50']:.1f} s, p95 {faults['p95']:.1f} s, max {faults['max']:.1f} s)"
        named = faults["suspects"]
        lines.append(f"{line}; named rightly {named['right']}, wrongly {named['wrong']}, nobody {named['none']}")
    if controls["runs"]:
        lines.append(f"{controls['right']} of {controls['runs']} controls right, {controls['seconds']:.0f} s watched")
    lines.append(f"{numbers['false_alarms']} false alarm(s)")
    return "\n".join(lines) + "\n"
