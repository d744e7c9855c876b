"""Flight Recorder: who waits for whom over all groups, and what stands at the root.

A root that has nothing outstanding did not come (`missing_enter`, `missing_peer`). A root that everybody has joined and
that alone has not started, or alone has not finished, has a stalled GPU (`gpu_stalled`). A root without a dump is
unknown. No root is a cycle (`order_cycle`); everybody at one operation is the path (`all_entered_none_left`).
Blind to: traffic outside ProcessGroupNCCL and gloo, graph replays, ranks without dump and log.
"""

from __future__ import annotations

from rankmuster.diagnose import waits
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.absent_ranks import NAME, absent
from rankmuster.diagnose.detectors.exchanges import met
from rankmuster.diagnose.detectors.standing_together import SECOND_SET, together
from rankmuster.diagnose.detectors.wait_cycle import cycle
from rankmuster.diagnose.detectors.young import misdated, young
from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.memo import once
from rankmuster.diagnose.roll import Head
from rankmuster.diagnose.wait_graph import WaitGraph
from rankmuster.model.dump_sets import Since
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text


@once
def graph_of(context: Context) -> WaitGraph:
    """Who waits for whom; reports ask too."""
    return waits.build(context.table)


def detect(context: Context) -> list[Finding]:
    """Findings from the dumps (and from watchdog lines for ranks without one); none of a job in motion accuses."""
    table = context.table
    heads = {rank: head for rank, head in table.heads.items() if head is not None}
    if not heads:
        return []
    if context.in_motion:
        moving = sorted(rank for rank, facts in context.dump_facts.items() if facts.in_motion)
        signs = "hold operations that are completed and not yet retired"
        if all(facts.went_on for facts in context.dump_facts.values()):
            signs = "hold operations that were enqueued since an older look at them"
        statement = (
            f"The dumps of {ranks_text(moving)} {signs}: the job moved when they were taken, and their outstanding "
            "operations are its ordinary tail"
        )
        return [Finding(NAME, Plane.FLIGHT, statement, _sources(context, moving))]
    if context.doubtful_motion:
        return [_doubtful(context, heads)]
    if young(context, heads):
        return [_convicts_nobody(context, heads)]
    graph = graph_of(context)
    found = absent(context, graph, heads)
    lost = sorted(rank for rank, flight in table.rows.items() if flight.head_lost)
    if lost:
        # Where the others wait for a rank that stands at nothing, that still holds; nothing else does.
        return [*found, _overwritten(context, lost)]
    found += together(context, graph, heads)
    found += met(context, graph, heads)
    if not any(finding.accusation for finding in found):
        found += cycle(context, graph)
    return found


def _convicts_nobody(context: Context, heads: dict[int, Head]) -> Finding:
    seconds = misdated(context, heads)
    if seconds:
        statement = (
            f"The noted times of the dumps lie up to {seconds:.0f} s before operations that they hold: clocks that "
            "differ, and how long these operations are outstanding is unknown; they convict nobody"
        )
        return Finding(NAME, Plane.FLIGHT, statement, _sources(context, sorted(heads)), would_decide=SECOND_SET)
    statement = (
        "All outstanding operations were only just enqueued when the dumps were taken, or others of their groups were "
        "or had only just ended; they convict nobody"
    )
    return Finding(NAME, Plane.FLIGHT, statement, _sources(context, sorted(heads)), would_decide=SECOND_SET)


def _doubtful(context: Context, heads: dict[int, Head]) -> Finding:
    if context.between is not None and context.between.since is Since.UNTOLD:
        statement = (
            "All ranks went on after the earlier set, and nothing tells whether the later one shows the ordinary tail "
            "of a moving job or a stop"
        )
        return Finding(NAME, Plane.FLIGHT, statement, _sources(context, sorted(heads)), would_decide=SECOND_SET)
    moving = sorted(rank for rank, facts in context.dump_facts.items() if facts.in_motion)
    standing = sorted(rank for rank in heads if rank not in moving)
    statement = (
        f"The dumps of {ranks_text(moving)} were taken while the job moved, those of {ranks_text(standing)} show no "
        "motion, and no look time tells which were taken later: a slow job, or one that has stopped since"
    )
    return Finding(NAME, Plane.FLIGHT, statement, _sources(context, moving), would_decide=SECOND_SET)


def _overwritten(context: Context, lost: list[int]) -> Finding:
    statement = (
        f"The ring buffers of {ranks_text(lost)} hold outstanding operations alone: where these ranks stand is "
        "overwritten, and for whom they wait cannot be told"
    )
    wanted = "dumps of larger buffers (TORCH_FR_BUFFER_SIZE), or RAS"
    return Finding(NAME, Plane.FLIGHT, statement, _sources(context, lost), would_decide=wanted)


def _sources(context: Context, ranks: list[int]) -> tuple[str, ...]:
    return tuple(context.dump_facts[rank].source for rank in ranks if rank in context.dump_facts)[:8]
