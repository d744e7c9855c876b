"""Processes that a signal has stopped, so that nobody answers: the server whose page is asked, the engine, or all."""

from __future__ import annotations

from rankmuster.diagnose.thresholds import Thresholds
from rankmuster.model.node import NodeTask, TaskState
from rankmuster.watch.progress.window import Window

MOST_NAMED = 4
"""Processes named in a sentence."""


def suspended(window: Window, limits: Thresholds) -> str | None:
    """Which of them run nothing at every look, as a sentence; None where those that others depend on do run.

    A rank that is stopped among others is `diagnose`'s to judge: its peers tell.
    """
    tasks = [task for state in window.nodes() for task in state.tasks if task.looks]
    stopped = [task for task in tasks if task.always(TaskState.STOPPED) and task.seconds >= limits.stopped_seconds]
    beside = [task for task in stopped if task.rank is None and task.role != "worker"]
    if not beside and not (stopped and len(stopped) == len(tasks)):
        return None
    chosen = beside or stopped
    named = ", ".join(_name(task) for task in chosen[:MOST_NAMED]) + (", ..." if chosen[MOST_NAMED:] else "")
    return f"stopped by a signal (state T) at every look, and running nothing: {named}"


def _name(task: NodeTask) -> str:
    return f"pid {task.pid} ({task.name or task.role or 'unnamed'})"
