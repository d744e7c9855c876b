"""What a runbook would do, line by line, before anything is done: which actuator acts, and which only watches."""

from __future__ import annotations

from dataclasses import dataclass

from rich.console import Console

from rankmuster.model.incident import Step
from rankmuster.report.incident_words import STEPS, length
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper

MOST_LINES = 200
"""Lines of one action: a deny file for a fleet's nodes."""


@dataclass(frozen=True, slots=True)
class DryAction:
    """`acts`: whether it is enabled. `lines`: exactly what it would send or run; none where nothing can be told
    beforehand (`note` says why)."""

    name: str
    acts: bool
    lines: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class DryStep:
    """`seconds`: that it may take. `after`: which steps it waits for."""

    step: Step
    seconds: float
    after: tuple[Step, ...] = ()
    actions: tuple[DryAction, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class DryRun:
    """`because`: the opening and the decision that this would follow from, a sentence each."""

    instance: str
    because: tuple[str, ...]
    steps: tuple[DryStep, ...]
    total_seconds: float
    warnings: tuple[str, ...] = ()


def render(run: DryRun, console: Console) -> None:
    """Print it; nothing here has been sent."""
    paper = Paper(console)
    acting = sorted({action.name for step in run.steps for action in step.actions if action.acts})
    what = f"would act: {', '.join(acting)}" if acting else "nothing would act: no actuator is enabled"
    paper.line(paper.text("DRY RUN:", "bold yellow"), paper.text(f"nothing is sent or run; {what}", "bold"), whole=True)
    for warning in run.warnings:
        paper.item("!", paper.text(warning), style="bold red")
    paper.line(paper.text(f"instance {plain(run.instance, 100)}; total deadline {length(run.total_seconds)}", "dim"))
    for line in run.because:
        paper.item("-", paper.text(line))
    paper.heading("Steps")
    for number, step in enumerate(run.steps, start=1):
        _step(paper, number, step)


def _step(paper: Paper, number: int, step: DryStep) -> None:
    after = f"after {', '.join(one.value for one in step.after)}" if step.after else "at once"
    facts = f"{STEPS[step.step]}; {after}, at most {length(step.seconds)}"
    note = f" - {step.note}" if step.note else ""
    paper.item(f"{number}.", paper.text(step.step.value, "bold"), paper.text(facts + note))
    for action in step.actions:
        acts = "acts" if action.acts else "observes"
        more = f": {action.note}" if action.note else ""
        paper.line(paper.text(f"- {action.name} {acts}{more}", "" if action.acts else "dim"), indent=6)
        for line in action.lines[:MOST_LINES]:
            paper.line(paper.text(line), indent=10, whole=True)
        if len(action.lines) > MOST_LINES:
            paper.line(paper.text(f"and {len(action.lines) - MOST_LINES} more lines", "dim"), indent=10)
