"""`--stacks` on a terminal: what the culprit's host called last, beside where its victims called what they stand at."""

from __future__ import annotations

from collections.abc import Iterable

from rankmuster.model.flight_report import CallStack, StackReport
from rankmuster.report.flight.words import MAX_NAME, counted, short_ranks
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper

MAX_FRAMES = 12
"""Frames of one stack; the rest is counted, JSON has them."""

MEANS = "a dump's stack is where the call was made; it does not say where the rank is now"


def print_stacks(paper: Paper, report: StackReport) -> None:
    """The accused first; equal stacks once, with their ranks."""
    paper.heading("Stacks", MEANS)
    for line in report.seen:
        paper.item("+", paper.text(line))
    for stack in report.accused:
        _stack(paper, "*", "last recorded call", stack)
    for stack in report.waiting:
        _stack(paper, ".", "stands at" if len(stack.ranks) == 1 else "stand at", stack)
    if report.without:
        why = "TORCH_INCLUDE_STACK_TRACE=0, JSON, a second attempt, or a summary, which keeps that of the last call"
        paper.item("-", paper.text(f"no stack of it in the dumps of {short_ranks(report.without)} ({why})", "dim"))
    if not report.accused and not report.waiting:
        paper.item("-", paper.text("nobody is named, and no operation is outstanding", "dim"))


def _stack(paper: Paper, sign: str, what: str, stack: CallStack) -> None:
    number = "" if stack.sequence is None else f" #{stack.sequence}"
    end = ":" if stack.frames else ""
    call = f"{plain(stack.group, MAX_NAME)}{number} {plain(stack.op, MAX_NAME)} ({stack.state})"
    paper.item(sign, paper.text(f"{short_ranks(stack.ranks)}, {what} {call}{end}", "bold"))
    frames(paper, stack.frames, stack.folded, 6)


def frames(paper: Paper, shown: Iterable[str], folded: int, indent: int) -> None:
    """One line a frame, innermost first."""
    lines = list(shown)
    for frame in lines[:MAX_FRAMES]:
        paper.line(paper.text(frame), indent=indent)
    more = [counted(len(lines) - MAX_FRAMES, "outer frame")] if len(lines) > MAX_FRAMES else []
    more += [f"{counted(folded, 'frame')} of torch"] if folded else []
    if more:
        paper.line(paper.text(f"({', '.join(more)} not shown)", "dim"), indent=indent)
