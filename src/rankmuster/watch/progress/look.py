"""One look: what `diagnose` makes of the window's evidence now, and which planes could not say anything.

The judging is `diagnose`'s own, with its thresholds set for looks that are a period apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose import engine_state, progress
from rankmuster.diagnose.context import Context
from rankmuster.diagnose.departed import ENDED
from rankmuster.diagnose.detectors import inspector, late_arrival, uneven_load, wrong_path
from rankmuster.diagnose.engine_state import EngineState
from rankmuster.diagnose.finding import Finding
from rankmuster.diagnose.run import DETECTORS, diagnose
from rankmuster.diagnose.spin import Doing, picture, rates
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.fault import Confidence, Progress
from rankmuster.model.hardware import GpuTrack
from rankmuster.model.plane import Plane, PlaneReport, PlaneState
from rankmuster.model.verdict import Verdict
from rankmuster.watch.progress.communicators import CommunicatorSeen, communicators
from rankmuster.watch.progress.loaded import Interval, load_of, newest
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.progress.suspended import suspended
from rankmuster.watch.progress.window import Window

EXPECTED = frozenset({Plane.ENGINE, Plane.HARDWARE})
"""Planes that speak at every look where nothing else is configured."""

OF_STOPS = tuple(
    detector
    for detector in DETECTORS
    if detector not in (inspector.detect, late_arrival.detect, uneven_load.detect, wrong_path.detect)
)
"""Detectors that can show a stop. The others speak of speed alone, which is `speed`'s here, and take half of the time;
the diagnosis of a stop asks all of them."""


UNMOVED = "none of its GPUs was ever seen to move a byte, and without that computing and waiting look the same"
"""Replicas of one GPU each compute for seconds at full load and exchange nothing."""


@dataclass(frozen=True, slots=True)
class LookResult:
    """What one look showed.

    `progress`, `decisive`, `spoke`, `reason`: as `diagnose` says them. `verdict`: of the whole diagnosis, where
    something accuses; else None. `quiet_planes`: planes that are stale or blind, with why. `loaded`: whether a request
    runs or waits, None without a page. `intervals`: the newest of every engine. `doing`: what each rank's GPU does;
    `tracks`: its samples. `incarnation`: its number since the watch began. `started_at`: monotonic seconds, None
    unknown. `gone`: every process of the instance had ended. `engine_expected`: whether an engine's pages should be
    there. `engines`, `communicators`: each by itself. `offset`: monotonic to unix seconds.
    """

    progress: Progress
    decisive: bool
    spoke: tuple[Plane, ...]
    reason: str
    verdict: Verdict | None
    quiet_planes: tuple[PlaneReport, ...]
    loaded: bool | None
    intervals: tuple[Interval, ...]
    doing: Mapping[int, Doing]
    incarnation: int
    started_at: float | None
    gone: bool
    confidence: Confidence | None = None
    engine_expected: bool = True
    tracks: Mapping[int, GpuTrack] = field(default_factory=dict)
    engines: tuple[EngineState, ...] = ()
    communicators: tuple[CommunicatorSeen, ...] = ()
    offset: float = 0.0

    @property
    def all_spin(self) -> bool:
        """Whether every GPU that is seen spins without traffic."""
        return bool(self.doing) and all(doing is Doing.SPINNING for doing in self.doing.values())


def look(
    window: Window,
    settings: WatchSettings,
    now: float,
    *,
    habit: float = 0.0,
    expected: frozenset[Plane] = EXPECTED,
) -> LookResult:
    """Judges the window at `now` (monotonic seconds, told to it before by `advance`).

    `habit`: seconds of the instance's own long pauses (`pauses.Pauses`). `expected`: planes that should speak.
    """
    limits = settings.thresholds(habit)
    evidence = window.evidence(now)
    alone = _alone(window)
    only = _only(window, evidence) if alone else {}
    if alone:
        evidence = Evidence({kind: found for kind, found in evidence.by_type.items() if kind is not GpuTrack})
    context = contexts.build(evidence, limits)
    findings = [finding for detector in OF_STOPS for finding in detector(context)]
    view = progress.assess(context, findings)
    said, decisive, spoke, reason = view.progress, view.decisive, view.planes, view.reason
    verdict = None
    if said is Progress.STOPPED or any(_accuses(finding) for finding in findings):
        verdict = diagnose(evidence, limits).verdict
        if verdict.progress is Progress.STOPPED and said is not Progress.STOPPED:
            led = [record.plane for record in verdict.findings if record.led_to_verdict and record.plane is not None]
            said, decisive, reason = verdict.progress, True, verdict.summary
            spoke = tuple(dict.fromkeys(led))
    if said is Progress.STOPPED and set(spoke) == {Plane.HARDWARE} and not _exchanged(context):
        said, decisive, verdict, reason = Progress.UNKNOWN, False, None, f"{reason}; {UNMOVED}"
    engine = engine_state.assess(context)
    held = suspended(window, limits)
    if held is not None and said is Progress.STOPPED:
        reason = f"{reason}; {held}"
    elif held is not None and window.failure(Plane.ENGINE) is not None:
        # Nobody answers because nobody runs, which is more than a scrape that fails.
        loaded = bool(_loaded(window))
        said, decisive, spoke = (Progress.STOPPED if loaded else Progress.UNKNOWN), loaded, (Plane.PLATFORM,)
        reason = f"{held}; its page does not answer, and showed {'requests' if loaded else 'no request'} the last time"
    facts = window.facts
    offset = window.clocks.offset or 0.0
    return LookResult(
        progress=said,
        decisive=decisive,
        spoke=spoke,
        reason=reason,
        verdict=verdict,
        quiet_planes=_quiet(window, settings, now, context, engine, alone, expected),
        loaded=_loaded(window),
        intervals=newest(window.pages),
        doing={rank: state.doing for rank, state in picture(context).states.items()},
        incarnation=window.incarnations,
        started_at=facts.started_at - offset if facts is not None and facts.started_at is not None else None,
        gone=_gone(window),
        confidence=_confidence(verdict, spoke),
        engine_expected=Plane.ENGINE in expected or Plane.ENGINE in window.spoke,
        tracks=only or context.tracks,
        engines=engine_state.states(context),
        communicators=communicators(context),
        offset=offset,
    )


def _accuses(finding: Finding) -> bool:
    accusation = finding.accusation
    return accusation is not None and accusation.stop and accusation.confidence is not Confidence.POSSIBLE


def _confidence(verdict: Verdict | None, spoke: tuple[Plane, ...]) -> Confidence | None:
    """The verdict's, else by how many planes say it."""
    if verdict is not None and verdict.confidence is not None:
        return verdict.confidence
    if not spoke:
        return None
    return Confidence.CONFIRMED if len(spoke) > 1 else Confidence.LIKELY


def _alone(window: Window) -> bool:
    """Whether the instance has one GPU only: it waits for no peer, and computes without moving a byte."""
    world = window.facts.world_size if window.facts is not None else None
    return world == 1 or (world is None and window.gpus == 1)


def _exchanged(context: Context) -> bool:
    """Whether any GPU moved bytes as long as samples reach back; `Tracks` keeps the last that did."""
    least = context.limits.moving_kib_per_s
    return any(bool((rates(track) >= least).any()) for track in context.tracks.values())


def _only(window: Window, evidence: Evidence) -> dict[int, GpuTrack]:
    """The samples of the one rank that there is: nothing is judged by them, and people wish to see them."""
    process = window.facts.processes[0] if window.facts is not None and window.facts.processes else None
    rank, uuid = (process.rank, process.gpu_uuid) if process is not None else (0, None)
    tracks = evidence.of(GpuTrack)
    found = tracks if len(tracks) == 1 else [track for track in tracks if uuid is not None and track.uuid == uuid]
    return {rank: found[0]} if found else {}


def _loaded(window: Window) -> bool | None:
    loads = [load_of(stream) for pages in window.pages.values() for stream in pages[-1].page.streams]
    return any(load > 0 for load in loads) if loads else None


def _gone(window: Window) -> bool:
    """Whether no process is left of those that were looked at."""
    tasks = [task for state in window.nodes() for task in state.tasks if task.rank is not None or task.role == "worker"]
    return bool(tasks) and all(task.looks and task.looks[-1].state in ENDED for task in tasks)


def _quiet(
    window: Window,
    settings: WatchSettings,
    now: float,
    context: Context,
    engine: EngineState | None,
    alone: bool,
    expected: frozenset[Plane],
) -> tuple[PlaneReport, ...]:
    """Planes that should have spoken of the last looks and did not, and those that cannot see a stop."""
    found = []
    patience = settings.stale_looks * settings.period
    for plane in sorted(expected | ({Plane.PLATFORM} & set(window.spoke)), key=list(Plane).index):
        last = window.spoke.get(plane)
        why = window.failure(plane)
        if last is None:
            found.append(PlaneReport(plane, PlaneState.SILENT, f"it has not spoken yet{f': {why}' if why else ''}"))
        elif now - last > patience:
            note = f"it spoke {now - last:.0f} s ago the last time{f': {why}' if why else ''}"
            found.append(PlaneReport(plane, PlaneState.SILENT, note))
    silent = {report.plane for report in found}
    if engine is not None and Plane.ENGINE not in silent and not _steps(window):
        note = "the counters on its pages move only when requests end: flat ones say nothing"
        found.append(PlaneReport(Plane.ENGINE, PlaneState.BLIND, note))
    if alone:
        note = "one GPU alone waits for no peer: computing and waiting look the same"
        found.append(PlaneReport(Plane.HARDWARE, PlaneState.BLIND, note))
    elif picture(context).ranks(Doing.SPINNING) and not _exchanged(context):
        found.append(PlaneReport(Plane.HARDWARE, PlaneState.BLIND, UNMOVED))
    foreign = picture(context).ranks(Doing.FOREIGN)
    if foreign and len(foreign) == len(context.tracks):
        note = "processes outside the instance run on its GPUs"
        found.append(PlaneReport(Plane.HARDWARE, PlaneState.SILENT, note))
    return tuple(found)


def _steps(window: Window) -> bool:
    return any(stream.steps for pages in window.pages.values() for stream in pages[-1].page.streams)
