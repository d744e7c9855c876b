"""What comes after the flight report: what would decide where it does not, and which command says what to do."""

from __future__ import annotations

from rankmuster.model.fault import FaultClass, Role
from rankmuster.model.verdict import Verdict
from rankmuster.report.paper import Paper

MAX_WANTED = 4
"""Pieces of evidence that would decide, of which `diagnose` lists all."""

UNDECIDED = (FaultClass.INCONCLUSIVE, FaultClass.BLIND)


def print_further(paper: Paper, verdict: Verdict) -> None:
    """Nothing for a healthy job; of a culprit the list of what would decide is left to `diagnose`."""
    if verdict.class_ is FaultClass.HEALTHY:
        return
    named = any(suspect.role is Role.CULPRIT for suspect in verdict.suspects)
    wanted = () if named else verdict.would_decide[:MAX_WANTED]
    if wanted:
        paper.heading("What would decide")
    for text in wanted:
        paper.item("?", paper.text(text))
    if verdict.class_ in UNDECIDED:
        paper.heading("Next", "rankmuster diagnose on the same folder says which planes were blind, and why")
        return
    word = verdict.subclass.value if verdict.subclass is not None else verdict.class_.value
    paper.heading(
        "Next",
        "rankmuster diagnose on the same folder says what to save and to rebuild; "
        f"rankmuster explain {word}, what this is",
    )
