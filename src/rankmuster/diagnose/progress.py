"""Is the instance advancing, slow, idle or stopped? One answer from all planes, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.diagnose import engine_state, inits
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_state import EngineState, Moves
from rankmuster.diagnose.finding import Finding, ranks_text
from rankmuster.diagnose.ras_view import looks_per_communicator
from rankmuster.diagnose.spin import Doing, Picture, picture
from rankmuster.model.fault import Phase, Progress
from rankmuster.model.frameworklog import EngineWatchdog
from rankmuster.model.plane import Plane

STALE_PAGES = 20.0
"""Seconds by which the rest of the evidence may outlast the last metrics page before it says nothing of the end."""


@dataclass(frozen=True, slots=True)
class ProgressView:
    """`decisive`: positive evidence, which outranks what looks like waiting. `planes`: who said so."""

    progress: Progress
    decisive: bool
    planes: tuple[Plane, ...]
    reason: str
    findings: tuple[Finding, ...]
    since: float | None = None


def assess(context: Context, findings: list[Finding]) -> ProgressView:
    """The state at the end of the evidence."""
    engine = engine_state.assess(context)
    seen = picture(context)
    notes = _notes(context, engine, seen)
    if any(f.accusation and f.accusation.phase is Phase.INIT for f in findings) and not _was_running(context):
        return ProgressView(Progress.STARTING, False, (Plane.NCCL_LOG,), "init has not completed", notes)
    spinning, moving = seen.ranks(Doing.SPINNING), seen.ranks(Doing.MOVING)
    frozen = bool(spinning) and not moving
    if frozen:
        frozen = min(seen.states[rank].seconds for rank in spinning) >= context.limits.hardware_seconds
    if engine is not None:
        view = _by_engine(context, engine, seen, frozen, notes)
        if view is not None:
            return view
    if context.first_timeout is not None or any(not line.weak for line in context.evidence.of(EngineWatchdog)):
        return ProgressView(Progress.STOPPED, True, (Plane.FRAMEWORK_LOG,), "a watchdog timed out", notes)
    if frozen:
        reason = f"{ranks_text(spinning)} spin with frozen link counters and no byte moves"
        return ProgressView(Progress.STOPPED, True, (Plane.HARDWARE,), reason, notes)
    if moving and len(moving) * 2 > len(seen.states):
        return ProgressView(Progress.ADVANCING, True, (Plane.HARDWARE,), "bytes move between the GPUs", notes)
    if context.in_motion:
        reason = "the dumps were taken from a job in motion"
        return ProgressView(Progress.ADVANCING, True, (Plane.FLIGHT,), reason, notes)
    if _ras_moved(context):
        return ProgressView(Progress.ADVANCING, True, (Plane.RAS,), "launched counts moved between RAS polls", notes)
    if any(f.accusation and f.accusation.stop and f.plane in (Plane.FLIGHT, Plane.RAS) for f in findings):
        return ProgressView(Progress.STOPPED, False, (Plane.FLIGHT,), "ranks wait and nothing else moves", notes)
    return ProgressView(Progress.UNKNOWN, False, (), "no plane shows work that moves, waits or is absent", notes)


def _by_engine(
    context: Context, engine: EngineState, seen: Picture, frozen: bool, notes: tuple[Finding, ...]
) -> ProgressView | None:
    moving = seen.ranks(Doing.MOVING)
    end = context.window[1]
    stale = end is not None and end - engine.last_page > STALE_PAGES
    timed_out = context.first_timeout is not None and context.first_timeout > (engine.last_advance or 0.0)
    if engine.moves is Moves.STALLED:
        if moving and len(moving) == len(seen.states):
            reason = f"{engine.text}, yet bytes move on every GPU: a long prefill or another step without output"
            return ProgressView(Progress.ADVANCING, True, (Plane.HARDWARE,), reason, notes)
        if engine.gauges_moved and not frozen and not timed_out:
            reason = f"{engine.text}: perhaps a long prefill"
            return ProgressView(Progress.UNKNOWN, False, (Plane.ENGINE,), reason, notes)
        planes = (Plane.ENGINE, Plane.HARDWARE) if frozen else (Plane.ENGINE,)
        return ProgressView(Progress.STOPPED, True, planes, engine.text, notes, engine.last_advance)
    if stale or timed_out or (frozen and engine.moves is not Moves.ADVANCING):
        return None
    if frozen and engine.last_advance is not None:
        # Spinning that began after the last advance: a stop that the pages are too short to show.
        since = max(state.since or 0.0 for state in seen.states.values() if state.doing is Doing.SPINNING)
        if since >= engine.last_advance - 2.0:
            return None
    if engine.moves is Moves.IDLE:
        return ProgressView(Progress.IDLE, True, (Plane.ENGINE,), engine.text, notes)
    if engine.moves is Moves.SLOW:
        return ProgressView(Progress.SLOW, True, (Plane.ENGINE,), engine.text, notes)
    if engine.moves is Moves.ADVANCING:
        return ProgressView(Progress.ADVANCING, True, (Plane.ENGINE,), engine.text, notes)
    return None


def _notes(context: Context, engine: EngineState | None, seen: Picture) -> tuple[Finding, ...]:
    found = []
    if engine is not None:
        found.append(Finding("engine-progress", Plane.ENGINE, engine.text, engine.evidence))
    moving = seen.ranks(Doing.MOVING)
    if moving:
        statement = f"Bytes move on the GPU links of {ranks_text(moving)}"
        found.append(
            Finding(
                "link-bytes", Plane.HARDWARE, statement, tuple({context.tracks[rank].source for rank in moving})[:2]
            )
        )
    return tuple(found)


def _was_running(context: Context) -> bool:
    return bool(context.table.rolls) or any(
        comm.completed and not comm.started - comm.completed for comm in inits.communicators(context)
    )


def _ras_moved(context: Context) -> bool:
    for looks in looks_per_communicator(context).values():
        if len(looks) < 2:
            continue
        last = looks[-1]
        earlier = [look for look in looks if last.time - look.time >= context.limits.ras_gap_seconds]
        if not earlier:
            continue
        for op, counts in last.counts.items():
            before = earlier[-1].counts.get(op, {})
            if any(rank in before and count > before[rank] for rank, count in counts.items()):
                return True
    return False
