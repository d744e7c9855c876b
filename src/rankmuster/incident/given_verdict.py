"""Whether a verdict that came with an opening is about this instance, this incarnation and this stop. Pure.

A file that somebody names may be of another instance or of last week: it would end a group and fence a node that are
well. What was collected and diagnosed in the incident itself is about it, whatever it calls things.
"""

from __future__ import annotations

from rankmuster.model.incident import Opening
from rankmuster.model.verdict import Verdict

CLOCKS_DIFFER = 60.0
"""Seconds by which the clock of the evidence may be behind that of the watch."""


def objection(verdict: Verdict, opening: Opening, bound: str | None = None) -> str | None:
    """Why it may not be acted on; None where nothing speaks against it. `bound`: the incarnation as the group calls it.

    What is not known on one side speaks against nothing.
    """
    if verdict.instance is not None and verdict.instance != opening.instance:
        return f"it is about {verdict.instance}, and the incident about {opening.instance}"
    meant = {opening.incarnation, bound}
    if verdict.incarnation is not None and None not in meant and verdict.incarnation not in meant:
        return f"it is about incarnation {verdict.incarnation}, the incident about {opening.incarnation}"
    end = verdict.window.end
    if end is not None and opening.since is not None and end < opening.since - CLOCKS_DIFFER:
        return f"its evidence ends {opening.since - end:.0f} s before this stop began: it is about something else"
    return None
