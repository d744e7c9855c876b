"""What must hold for the words of every verdict: reasons that follow "rank 3", numbers that fit, no broken ends."""

from __future__ import annotations

import re

from rankmuster.model.fault import SuspectKind
from rankmuster.model.verdict import Verdict

VERBS = frozenset(
    {
        *("arrives", "called", "did", "does", "ended", "enqueued", "entered", "has", "is", "launched", "left", "lost"),
        *("makes", "met", "never", "raised", "ran", "reported", "stands", "started", "stopped", "timed", "uses"),
        *("waits", "warned", "went"),
    }
)
"""First words of a reason; `never` stands before its verb."""

COUNTED = (
    "channels|collectives|dumps|events|GPUs|logs|metrics pages|more link events|polls|processes|ranks|reports|times|"
    "watchdog time-outs"
)

SLIPS = re.compile(
    rf"(?<![./])\.\.(?![./])|#-\d|\b1 (?:{COUNTED})\b|\brank \d+ (?:have|stand|wait|were)\b|\b([a-z]{{3,}}) \1\b"
)
"""Two full stops (`../` is a path), a number below zero, a plural of one, a plural verb for one rank, a word twice."""


def slips(verdict: Verdict) -> list[str]:
    """Everything that reads wrong; empty where nothing does."""
    ranks = [suspect for suspect in verdict.suspects if suspect.kind is SuspectKind.RANK]
    found = [f"rank {suspect.rank} {suspect.why}" for suspect in ranks if suspect.why.partition(" ")[0] not in VERBS]
    texts = [verdict.summary, *verdict.would_decide, *(suspect.why for suspect in verdict.suspects)]
    texts += [finding.statement for finding in verdict.findings]
    texts += [plane.note for plane in verdict.planes]
    return found + [text for text in texts if SLIPS.search(text)]
