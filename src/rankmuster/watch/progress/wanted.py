"""The state that one look speaks for, given whether the instance may still be starting. Hysteresis is the model's."""

from __future__ import annotations

from rankmuster.model.fault import Progress
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.look import LookResult

MOST_QUIET = 3
"""Planes that a reason names with why they do not tell; the view has all."""


def wanted(view: LookResult, *, starting: str | None, worked: bool, overdue: str | None = None) -> tuple[Progress, str]:
    """The state, and why. `starting`: why it may still be starting. `worked`: whether it has ever produced anything.
    `overdue`: why it should have come up by now."""
    if view.gone:
        return Progress.UNKNOWN, "every process of the instance has ended: there is nothing that could advance"
    said = view.progress
    if said is Progress.STOPPED:
        if starting is not None:
            return Progress.STARTING, f"{starting}; {view.reason}"
        return said, view.reason
    if starting is not None and said is not Progress.IDLE and not (said is Progress.ADVANCING and view.loaded):
        return Progress.STARTING, starting
    if overdue is not None and said is Progress.UNKNOWN:
        return Progress.STOPPED, overdue
    idle_by_gauges = said is Progress.UNKNOWN and view.spoke == (Plane.ENGINE, Plane.HARDWARE)
    if idle_by_gauges and worked and view.all_spin:
        # At a start that is a warm-up. Later gauges of engines that set them with each step do not show who waits.
        return Progress.STOPPED, f"{view.reason}; yet it has worked before: this is no start"
    if said is Progress.UNKNOWN and any(one.stirred and one.loaded for one in view.intervals):
        return Progress.ADVANCING, "its gauges change while no counter does: perhaps a long prefill"
    if said is Progress.SLOW:
        # Over a window of two minutes a change of load looks the same: `speed` has an hour to compare with.
        return Progress.ADVANCING, view.reason
    if said is Progress.UNKNOWN and view.quiet_planes:
        told = (f"{one.plane.value}: {one.note}" for one in view.quiet_planes[:MOST_QUIET])
        return said, "; ".join((view.reason, *told))
    return said, view.reason
