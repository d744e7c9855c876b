"""Which part of the window the dumps themselves may have slowed."""

from __future__ import annotations

from rankmuster.diagnose.context import Context


def before_stack_dumps(context: Context) -> float:
    """A dump with stacks slows the job for seconds: what was enqueued after the first one is not looked at."""
    return min(context.stack_dumps(), default=float("inf"))


def disturbed(context: Context) -> bool:
    """Dumps with stacks of which no log says when they were asked for: their window may be slowed by themselves."""
    stacked = any(len(dump.columns.stacks) for dump in context.job.dumps.values())
    return stacked and before_stack_dumps(context) == float("inf")
