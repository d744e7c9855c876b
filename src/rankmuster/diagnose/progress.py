"""Is the instance advancing, slow, idle or stopped? One answer from all planes, with what it rests on."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankmuster.diagnose import engine_state, inits, outlived
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.engine_state import EngineState, Moves
from rankmuster.diagnose.finding import Finding, verb
from rankmuster.diagnose.ras_view import looks_per_communicator, moved
from rankmuster.diagnose.spin import Doing, Picture, picture, rates, sample_gap
from rankmuster.model.fault import Phase, Progress
from rankmuster.model.frameworklog import EngineWatchdog
from rankmuster.model.plane import Plane
from rankmuster.model.ranks_text import ranks_text


@dataclass(frozen=True, slots=True)
class ProgressView:
    """`decisive`: positive evidence, which outranks what looks like waiting. `planes`: who said so.

    `fresh` False: it moved within the time that a stop takes to show, and not in its last ordinary gaps.
    """

    progress: Progress
    decisive: bool
    planes: tuple[Plane, ...]
    reason: str
    findings: tuple[Finding, ...]
    since: float | None = None
    fresh: bool = True


def assess(context: Context, findings: list[Finding]) -> ProgressView:
    """The state at the end of the evidence."""
    view = _assess(context, findings)
    ended = outlived.lost(context)
    if not ended or view.progress not in (Progress.ADVANCING, Progress.SLOW, Progress.IDLE):
        return view
    # What moved, or rested, before they ended is no sign of health after it.
    progress = Progress.STOPPED if set(ended) >= set(context.world) else Progress.UNKNOWN
    reason = f"{ranks_text(ended)} ended while evidence was taken, and nothing shows that work went on without them"
    return ProgressView(progress, False, (Plane.PLATFORM,), reason, view.findings)


def _assess(context: Context, findings: list[Finding]) -> ProgressView:
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
    if context.timeouts or any(not line.weak for line in context.evidence.of(EngineWatchdog)):
        return ProgressView(Progress.STOPPED, True, (Plane.FRAMEWORK_LOG,), "a watchdog timed out", notes)
    if frozen:
        reason = f"{ranks_text(spinning)} {verb(spinning, 'spins', 'spin')} with frozen link counters and no byte moves"
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
    reason = "no plane shows work that moves, waits or is absent"
    if engine is not None and engine.moves is Moves.UNCLEAR:
        reason = f"{reason}; {engine.text}"
    return ProgressView(Progress.UNKNOWN, False, (), reason, notes)


def witnesses(context: Context, progress: Progress) -> frozenset[Plane]:
    """The planes that show by themselves that work advances, or that there is none."""
    seen = picture(context)
    engine = engine_state.assess(context)
    found = set()
    if progress is Progress.IDLE:
        if engine is not None and engine.moves is Moves.IDLE:
            found.add(Plane.ENGINE)
        if seen.ranks(Doing.IDLE) and not seen.ranks(Doing.SPINNING) and not seen.ranks(Doing.MOVING):
            found.add(Plane.HARDWARE)
        return frozenset(found)
    if engine is not None and engine.moves in (Moves.ADVANCING, Moves.SLOW):
        found.add(Plane.ENGINE)
    if len(seen.ranks(Doing.MOVING)) * 2 > len(seen.states) > 0:
        found.add(Plane.HARDWARE)
    if context.in_motion:
        found.add(Plane.FLIGHT)
    if _ras_moved(context):
        found.add(Plane.RAS)
    return frozenset(found)


def _by_engine(
    context: Context, engine: EngineState, seen: Picture, frozen: bool, notes: tuple[Finding, ...]
) -> ProgressView | None:
    moving = seen.ranks(Doing.MOVING)
    end = context.window[1]
    limits = context.limits
    patience = max(limits.stale_page_seconds, limits.stale_page_gaps * engine.page_gap)
    stale = end is not None and end - engine.last_page > patience
    timed_out = context.first_timeout is not None and context.first_timeout > (engine.last_advance or 0.0)
    # Without a stamp nobody knows which was first: it outweighs gauges, and no counter that was seen to move.
    perhaps_timed_out = timed_out or (bool(context.timeouts) and context.first_timeout is None)
    if engine.moves is Moves.STALLED:
        if (
            moving
            and _present(context, engine, moving)
            and _all_that_work(context, seen)
            and _as_before(context, engine, moving)
        ):
            reason = f"{engine.text}, yet bytes move on every GPU: a long prefill or another step without output"
            if len(moving) < len(seen.states):
                reason = (
                    f"{engine.text}, yet bytes move on all GPUs but those of idle engines: a long prefill or the like"
                )
            return ProgressView(Progress.ADVANCING, True, (Plane.HARDWARE,), reason, notes)
        after = (engine.last_advance or 0.0) + limits.stall_seconds
        if not frozen and not timed_out and _ras_moved(context, after):
            reason = f"{engine.text}, yet launched counts move between RAS polls: a long prefill or the like"
            return ProgressView(Progress.ADVANCING, True, (Plane.RAS,), reason, notes)
        if engine.gauges_moved and not frozen and not perhaps_timed_out:
            reason = f"{engine.text}: perhaps a long prefill"
            return ProgressView(Progress.UNKNOWN, False, (Plane.ENGINE,), reason, notes)
        planes = (Plane.ENGINE, Plane.HARDWARE) if frozen else (Plane.ENGINE,)
        # Where requests came after its last advance, they have been held up since they came.
        since = None if engine.last_advance is None else max(engine.last_advance, engine.last_page - engine.frozen)
        return ProgressView(Progress.STOPPED, True, planes, engine.text, notes, since)
    if stale or timed_out or _ras_stands_since(context, engine):
        return None
    if frozen and engine.paused:
        reason = f"{engine.text}, and its GPUs spin without traffic: a weight update may wait for whoever sends it"
        return ProgressView(Progress.UNKNOWN, False, (Plane.ENGINE,), reason, notes)
    if engine.held_elsewhere and not frozen and not moving:
        return ProgressView(Progress.UNKNOWN, False, (Plane.ENGINE,), engine.text, notes)
    if frozen and engine.moves is Moves.IDLE and engine.last_advance is None and not seen.ranks(Doing.IDLE):
        reason = f"{engine.text}, and all GPUs are busy without traffic: start-up, warm-up or a stop before any request"
        return ProgressView(Progress.UNKNOWN, False, (Plane.ENGINE, Plane.HARDWARE), reason, notes)
    if frozen and engine.moves is not Moves.ADVANCING:
        return None
    if frozen and engine.last_advance is not None:
        # Spinning that began after the last advance: a stop that the pages are too short to show. A page tells of an
        # advance, and not when it was since the page before.
        latest = min(engine.last_advance - limits.tail_seconds, engine.advanced_after or engine.last_advance)
        since = max(state.since or 0.0 for state in seen.states.values() if state.doing is Doing.SPINNING)
        if since >= latest:
            return None
    if engine.moves is Moves.IDLE:
        return ProgressView(Progress.IDLE, True, (Plane.ENGINE,), engine.text, notes)
    if engine.moves is Moves.SLOW:
        return ProgressView(Progress.SLOW, True, (Plane.ENGINE,), engine.text, notes)
    if engine.moves is Moves.ADVANCING:
        return ProgressView(Progress.ADVANCING, True, (Plane.ENGINE,), engine.text, notes, fresh=engine.fresh)
    return None


def _present(context: Context, engine: EngineState, moving: tuple[int, ...]) -> bool:
    """Whether the samples of these reach the time in which the counters stood, as often as they are taken."""
    limits = context.limits
    tracks = [context.tracks[rank] for rank in moving]
    patience = [max(limits.stall_seconds, limits.late_sample_gaps * sample_gap(track)) for track in tracks]
    return all(track.time[-1] >= engine.last_page - most for track, most in zip(tracks, patience, strict=True))


def _all_that_work(context: Context, seen: Picture) -> bool:
    """Whether bytes move on every GPU; on those that rest none need to where other engines have nothing to do."""
    others = [state.moves for state in engine_state.states(context)]
    resting = set(seen.ranks(Doing.IDLE)) if len(others) > 1 and set(others) == {Moves.STALLED, Moves.IDLE} else set()
    return set(seen.states) - resting == set(seen.ranks(Doing.MOVING))


def _as_before(context: Context, engine: EngineState, moving: tuple[int, ...]) -> bool:
    """Whether the GPUs move about as much as while the counters advanced; without such a time, whether they move."""
    for rank in moving:
        track = context.tracks[rank]
        rate = rates(track)
        earlier = rate[track.time[1:] <= (engine.last_advance or 0.0)]
        earlier = earlier[np.isfinite(earlier) & (earlier >= context.limits.moving_kib_per_s)]
        recent = float(np.nanmedian(rate[-context.limits.hardware_samples + 1 :]))
        if len(earlier) and recent < context.limits.prefill_share * float(np.median(earlier)):
            return False
    return True


def _ras_stands_since(context: Context, engine: EngineState) -> bool:
    """Whether counts that differ stood still over two looks that are all younger than the last page."""
    for looks in looks_per_communicator(context).values():
        young = [look for look in looks if look.time > engine.last_page]
        if len(young) < 2 or young[-1].time - young[0].time < context.limits.ras_gap_seconds:
            continue
        if young[-1].differing and not any(moved(look, young[-1]) for look in young[:-1]):
            return True
    return False


def _notes(context: Context, engine: EngineState | None, seen: Picture) -> tuple[Finding, ...]:
    found = []
    if engine is not None:
        found.append(Finding("engine-progress", Plane.ENGINE, engine.text, engine.evidence))
    moving = seen.ranks(Doing.MOVING)
    if moving:
        statement = f"Bytes move on the GPU links of {ranks_text(moving)}"
        found.append(
            Finding(
                "link-bytes",
                Plane.HARDWARE,
                statement,
                tuple(sorted({context.tracks[rank].source for rank in moving}))[:2],
            )
        )
    return tuple(found)


def _was_running(context: Context) -> bool:
    return bool(context.table.rolls) or inits.any_completed(context)


def _ras_moved(context: Context, after: float | None = None) -> bool:
    """Whether counts grew up to the last look; `after`: since a look that is younger than this."""
    for every in looks_per_communicator(context).values():
        looks = [look for look in every if look.counts and (after is None or look.time > after)]
        for op, counts in (looks[-1].counts if looks else {}).items():
            limit = looks[-1].time - context.limits.ras_gap_seconds
            before = next((look.counts[op] for look in reversed(looks) if look.time <= limit and op in look.counts), {})
            if any(rank in before and count > before[rank] for rank, count in counts.items()):
                return True
    return False
