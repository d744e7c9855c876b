"""What one look and its judgement say, as the view of an instance that exporter, `top` and state file share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from rankmuster.model.fault import Progress
from rankmuster.model.hardware import Floats, GpuTrack
from rankmuster.model.instance import ProcessFacts
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.verdict import Suspect
from rankmuster.report.words import who
from rankmuster.watch.progress.loaded import Interval
from rankmuster.watch.progress.look import EXPECTED, LookResult
from rankmuster.watch.progress.model import Judgement
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings
from rankmuster.watch.progress.window import Window
from rankmuster.watch.snapshot import InstanceView, PlaneView, RankView, StopView

MOST_SUSPECTS = 8
"""Named in a view; the verdict names all."""

ROLES_OF = (Progress.STOPPED, Progress.SLOW)
"""States in which somebody may be to blame."""


def instance_view(
    judged: Judgement,
    view: LookResult,
    window: Window,
    now: float,
    *,
    name: str,
    settings: WatchSettings = DEFAULTS,
    expected: frozenset[Plane] = EXPECTED,
    declined: Mapping[Plane, str] | None = None,
    pids: Mapping[int, int] | None = None,
    looks: int = 0,
    look_seconds: float = 0.0,
    last_stop: StopView | None = None,
) -> InstanceView:
    """The view of one instance after the look at `now` (monotonic seconds), which made `view` and then `judged`.

    `name`: of the instance, as the watch calls it. `expected`: as `look` had it. `declined`: planes that are not asked
    or cannot see, with why (`signals.Declined`); the newest word of each. `pids`: rank -> pid on this node, for the
    ranks that live here; None for all processes of the window's facts, by their own numbers.
    """
    facts = window.facts
    fresh = settings.stale_looks * settings.period
    streams = [
        stream
        for pages in window.pages.values()
        if pages and now - pages[-1].at <= fresh
        for stream in pages[-1].page.streams
    ]
    engines = sorted({pages[-1].page.engine for pages in window.pages.values() if pages})
    accused = judged.suspects if judged.state in ROLES_OF else ()
    verdict = judged.verdict if accused or judged.state is Progress.STOPPED else None
    return InstanceView(
        name=name,
        state=judged.state,
        since=window.clocks.unix(judged.since),
        reason=judged.reason,
        deployment=facts.deployment if facts is not None else None,
        incarnation=facts.incarnation if facts is not None else None,
        engine="+".join(engines) or None,
        world_size=facts.world_size if facts is not None else None,
        event=judged.event.value if judged.event is not None else None,
        confidence=judged.confidence,
        class_=verdict.class_.value if verdict is not None else None,
        subclass=verdict.subclass.value if verdict is not None and verdict.subclass is not None else None,
        suspects=tuple(f"{one.role.value}: {who(one)}" for one in accused[:MOST_SUSPECTS]),
        ranks=_ranks(view, window, now, fresh, accused, pids),
        planes=_planes(view, window, now, expected, declined or {}),
        groups=judged.groups,
        tokens_per_s=_tokens(view.intervals, now, fresh),
        running=_sum(stream.running for stream in streams),
        waiting=_sum(stream.waiting for stream in streams),
        speed_kind=judged.speed.kind.value,
        speed_now=judged.speed.now,
        speed_usual=judged.speed.usual,
        stops=judged.stops,
        looks=looks,
        look_seconds=look_seconds,
        last_stop=last_stop,
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _tokens(intervals: tuple[Interval, ...], now: float, fresh: float) -> float | None:
    """Tokens a second of all engines together, those aside whose newest page is old."""
    return _sum(
        one.tokens / one.seconds
        for one in intervals
        if one.tokens is not None and one.seconds > 0 and now - one.at <= fresh
    )


def _ranks(
    view: LookResult,
    window: Window,
    now: float,
    fresh: float,
    accused: tuple[Suspect, ...],
    pids: Mapping[int, int] | None,
) -> tuple[RankView, ...]:
    processes = window.facts.processes if window.facts is not None else ()
    tasks = [task for state in window.nodes() for task in state.tasks if task.looks]
    by_pid = {task.pid: task.looks[-1].state.value for task in tasks}
    by_rank = {task.rank: task.looks[-1].state.value for task in tasks if task.rank is not None}
    oldest = window.clocks.unix(now) - fresh
    found = []
    for process in sorted(processes, key=lambda one: one.rank):
        pid = process.pid if pids is None else pids.get(process.rank)
        if pid is None:
            continue
        track = view.tracks.get(process.rank)
        if track is not None and (not len(track.time) or track.time[-1] < oldest):
            track = None
        doing = view.doing.get(process.rank) if track is not None else None
        state = by_rank.get(process.rank, by_pid.get(process.pid) if process.pid is not None else None)
        found.append(
            RankView(
                rank=process.rank,
                pid=pid,
                gpu=process.gpu if process.gpu is not None else (track.gpu if track is not None else None),
                doing=doing.value if doing is not None else None,
                sm_percent=_last(track.sm_percent) if track is not None else None,
                power_w=_last(track.power_w) if track is not None else None,
                nvlink_kib_per_s=_nvlink(track) if track is not None else None,
                state=state,
                role=_role(process, accused),
            )
        )
    return tuple(found)


def _last(values: Floats) -> float | None:
    return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None


def _nvlink(track: GpuTrack) -> float | None:
    """KiB per second between the two newest samples, both directions; None where not said, or a counter was reset."""
    if len(track.time) < 2 or track.time[-1] <= track.time[-2]:
        return None
    steps = [float(counter[-1] - counter[-2]) for counter in (track.nvlink_tx_kib, track.nvlink_rx_kib)]
    known = [step for step in steps if np.isfinite(step) and step >= 0]
    return sum(known) / float(track.time[-1] - track.time[-2]) if known else None


def _role(process: ProcessFacts, accused: tuple[Suspect, ...]) -> str | None:
    for one in accused:
        if one.rank == process.rank or (one.rank is None and one.pid is not None and one.pid == process.pid):
            return one.role.value
    return None


def _planes(
    view: LookResult, window: Window, now: float, expected: frozenset[Plane], declined: Mapping[Plane, str]
) -> tuple[PlaneView, ...]:
    quiet = {report.plane: report for report in view.quiet_planes}
    found = []
    for plane in Plane:
        if plane not in expected | set(window.spoke) | set(quiet) | set(declined):
            continue
        last = window.spoke.get(plane)
        age = max(now - last, 0.0) if last is not None else None
        report = quiet.get(plane)
        if plane in declined and (report is None or report.state is not PlaneState.BLIND):
            found.append(PlaneView(plane, PlaneState.BLIND, age, declined[plane]))
        elif report is not None:
            found.append(PlaneView(plane, report.state, age, report.note))
        else:
            failed = window.failure(plane)
            note = f"asked in vain the last time: {failed}" if failed else ""
            found.append(PlaneView(plane, PlaneState.SPOKE if last is not None else PlaneState.SILENT, age, note))
    return tuple(found)
