"""Framework log: gloo has received more than the call that waited for it had room for, and ended its process.

Of the two that exchanged it one is wrong: with a wrong size, or because one of them left out a call before. Which of
them nothing here tells, so nobody is convicted. Blind to the opposite: a message that is too short is taken.
"""

from __future__ import annotations

import signal

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.ends import ends
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.frameworklog import GlooSizes
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text

NAME = "gloo-sizes"


def detect(context: Context) -> list[Finding]:
    """One finding for all that said so."""
    said = context.evidence.of(GlooSizes)
    if not said:
        return []
    known = {one.origin.rank for one in said if one.origin.rank is not None}
    aborted = {end.rank for end in ends(context) if end.code == -signal.SIGABRT}
    if not known and len(aborted) == len(said) == 1:
        known = aborted  # a log of all ranks, and one of them was aborted
    ranks = tuple(sorted(known))
    first = said[0]
    who = ranks_text(ranks).capitalize() if ranks else f"{len(said)} rank(s) that the log does not name"
    statement = (
        f"{who}: gloo received {first.sent} bytes where the call that waited had room for {first.room}, and ended the "
        "process: a peer's call had another size, or came at another place in the order of calls"
    )
    return [
        Finding(
            NAME,
            Plane.FRAMEWORK_LOG,
            statement,
            tuple(dict.fromkeys(one.origin.reference for one in said))[:6],
            accuse(
                Subkind.SIZE_MISMATCH,
                Confidence.LIKELY,
                suspects=ranks,
                victims=tuple(rank for rank in context.world if rank not in ranks),
                why=dict.fromkeys(ranks, "received more than its call had room for"),
                scope=Scope.GROUP,
            ),
            would_decide="which sizes each rank gave last: TORCH_DISTRIBUTED_DEBUG=DETAIL compares them",
        )
    ]
