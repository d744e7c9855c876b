"""Outstanding operations that convict nobody, for their groups still moved when the dumps were taken.

An operation waits from when its group last moved: a host may run seconds ahead of its GPU, and one that it enqueued
long ago comes to the head of the stream only when what stands before it has ended. Other groups say nothing of it: a
second thread's heartbeat goes on beside a collective that nobody leaves.
"""

from __future__ import annotations

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.roll import Head

CLOCK_SLACK = 1.0
"""Seconds by which a look may be noted before stamps of the dump itself: the note is taken when the file is asked for,
and a dump with stacks is written up to seconds later, but ends with what the recorder held at its beginning."""


def young(context: Context, heads: dict[int, Head]) -> bool:
    """Whether every age that is known is below a few ordinary gaps. A newest stamp bounds an age from below only."""
    ages = []
    for rank, head in heads.items():
        facts = context.dump_facts.get(rank)
        if facts is None or facts.look is None or head.created <= 0 or not facts.look_noted:
            return False
        limit = max(context.limits.tail_seconds, context.limits.tail_gaps * context.table.rows[rank].longest_gap)
        age = facts.look - head.created
        if age >= limit:
            age = facts.look - _moved(context, head)
        if age >= limit:
            return False
        ages.append(age)
    return bool(ages)


def misdated(context: Context, heads: dict[int, Head]) -> float:
    """By how many seconds the looks were noted before the operations they show, at most; 0 within what is ordinary."""
    late = 0.0
    for rank, head in heads.items():
        facts = context.dump_facts.get(rank)
        if facts is not None and facts.look is not None and facts.look_noted and head.created > 0:
            late = max(late, head.created - facts.look)
    return late if late > CLOCK_SLACK else 0.0


def _moved(context: Context, head: Head) -> float:
    """When the group of `head` last moved on this rank, unix seconds: an enqueue, or an end that the host noticed."""
    if head.row < 0:
        return head.created
    columns = context.table.rows[head.rank].dump.columns
    same = columns.group == columns.group[head.row]
    newest = max(int(columns.created_ns[same].max()), int(columns.completed_ns[same].max()))
    return max(head.created, newest / 1e9)
