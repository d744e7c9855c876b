"""The catalogue of a drill on a terminal and as JSON: the faults, what must come back, and which can be made here."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.text import Text

from rankmuster.report.drill_words import LEFT_OUT, RIGHT
from rankmuster.report.paper import Paper

SCHEMA = "rankmuster.drill-list/1"


@dataclass(frozen=True, slots=True)
class Wanted:
    """What must come back with one backend. `culprit`: must, may or nobody. `why_not`: why it cannot be made here, else
    empty. `why`: where several answers are right, why."""

    backend: str
    classes: tuple[str, ...]
    subclasses: tuple[str, ...]
    culprit: str
    why: str
    why_not: str


@dataclass(frozen=True, slots=True)
class Listed:
    """One fault. `phase`: init or serving. `most_seconds`: in which it must be told."""

    name: str
    summary: str
    phase: str
    most_seconds: float
    own_job: bool
    wanted: tuple[Wanted, ...]


@dataclass(frozen=True, slots=True)
class ListedControl:
    """One control. `default`: it belongs to every drill."""

    name: str
    summary: str
    default: bool


CULPRIT = {"must": "the rank is named", "may": "the rank or nobody is named", "nobody": "nobody is named"}


def as_json(faults: Sequence[Listed], controls: Sequence[ListedControl]) -> str:
    """Ends with a newline."""
    plain = {
        "schema": SCHEMA,
        "faults": [asdict(one) for one in faults],
        "controls": [asdict(one) for one in controls],
    }
    return json.dumps(plain, indent=1) + "\n"


def render(
    faults: Sequence[Listed], controls: Sequence[ListedControl], backends: Mapping[str, str], console: Console
) -> None:
    """Print all of it. `backends`: why one cannot be used here at all, else empty; said once."""
    paper = Paper(console)
    paper.heading("Faults", "+ can be made here, - cannot")
    for backend, why in backends.items():
        if why:
            paper.line(paper.text(f"nothing of {backend} can be made here: {why}"))
    for fault in faults:
        own = "; also in a job of your own" if fault.own_job else ""
        paper.line(paper.text(fault.name, "bold"), paper.text(f"{fault.summary} ({fault.phase}{own})"))
        for one in fault.wanted:
            look = LEFT_OUT if one.why_not else RIGHT
            kinds = f": {' or '.join(one.subclasses)}" if one.subclasses else ""
            said = f"{' or '.join(one.classes)}{kinds}; {CULPRIT[one.culprit]}; within {fault.most_seconds:.0f} s"
            columns = [(Text(f"{look.terminal_sign:>3}", style=look.terminal), 3), (paper.text(one.backend), 5)]
            own_reason = one.why_not and one.why_not != backends.get(one.backend)
            paper.entry(columns, paper.text(f"{said}. Not here: {one.why_not}" if own_reason else said))
    paper.heading("Controls", "+ in every drill")
    for control in controls:
        sign = RIGHT.terminal_sign if control.default else " "
        paper.entry([(Text(f"{sign:>3}"), 3), (paper.text(control.name), 15)], paper.text(control.summary))
