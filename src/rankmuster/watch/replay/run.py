"""Feeds signals through the real window, look and model as fast as they go, and tells what came of it.

Signals are synthetic (`synthetic`) or those of a capture, by their stamps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from rankmuster.diagnose import context as contexts
from rankmuster.diagnose.thresholds import DEFAULTS as DIAGNOSE
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.engine import EnginePage
from rankmuster.model.hardware import COLUMNS, GpuTrack
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.plane import Plane
from rankmuster.model.ras import RasPoll
from rankmuster.model.stamp import StampKind
from rankmuster.watch.progress.look import look
from rankmuster.watch.progress.model import Event, Judgement, ProgressModel
from rankmuster.watch.progress.restless import restless, shows_stop
from rankmuster.watch.progress.settings import DEFAULTS, WatchSettings
from rankmuster.watch.progress.window import Window
from rankmuster.watch.replay.synthetic import EngineKind, Moment, Plan, StopKind, moments, shown
from rankmuster.watch.replay.traffic import Traffic, requests, seconds_of

ALARMS = (Event.STOPPED, Event.SLOW)
"""Events that call somebody."""

WARM_SECONDS = 300.0
"""Watched before a stop is injected: more than the window."""

WARM_LONGER = {Traffic.BURSTY: 900.0, Traffic.LONG_PREFILL: 900.0, Traffic.HOURLY: 7300.0}
"""... and so long that there was traffic before, as there is in any watch that is older than an hour."""


@dataclass(frozen=True, slots=True)
class Judged:
    """One look's judgement with its time."""

    now: float
    judgement: Judgement


def replay(looks: Iterable[Moment], expected: frozenset[Plane], settings: WatchSettings = DEFAULTS) -> Iterator[Judged]:
    """Judges look after look. Samples of the time between two looks are there where the look before gave reason."""
    window, model = Window(settings), ProgressModel(settings)
    anxious = False
    for moment in looks:
        between, observations = _halves(moment, settings.period)
        if between and anxious:
            wall = float(between[-1].time[-1])
            at = moment.now - (moment.unix - wall)
            for track in between:
                window.feed(at, wall, track)
            window.advance(at, wall)
            view = look(window, settings, at, habit=model.habit, expected=expected)
            if shows_stop(view):
                yield Judged(at, model.step(at, view))
        for observation in observations:
            window.feed(moment.now, moment.unix, observation)
        for plane in moment.failures:
            window.fail(moment.now, plane, "no answer")
        window.advance(moment.now, moment.unix)
        view = look(window, settings, moment.now, habit=model.habit, expected=expected)
        judged = model.step(moment.now, view)
        anxious = restless(view, judged, settings.thresholds(model.habit))
        yield Judged(moment.now, judged)


def _halves(moment: Moment, period: float) -> tuple[list[GpuTrack], list[object]]:
    """Samples of between this look and the one before, and everything else."""
    between: list[GpuTrack] = []
    others: list[object] = []
    for one in moment.observations:
        if isinstance(one, GpuTrack) and moment.unix - float(one.time[-1]) > period / 4:
            between.append(one)
        else:
            others.append(one)
    return between, others


@dataclass(frozen=True, slots=True)
class Day:
    """What a time without any fault brought: alarms with their time and reason, and how many looks found each state."""

    alarms: tuple[tuple[float, str, str], ...]
    states: dict[str, int]
    looks: int


def day(plan: Plan, seconds: int, seed: int, settings: WatchSettings = DEFAULTS) -> Day:
    """Traffic without a fault: every alarm is a false one."""
    rng = np.random.default_rng(seed)
    arrivals = requests(plan.traffic, seconds, rng)
    ticks = seconds_of(plan.traffic, arrivals, seconds, np.random.default_rng(seed + 1))
    alarms: list[tuple[float, str, str]] = []
    states: dict[str, int] = {}
    looks = 0
    for one in replay(moments(plan, ticks, np.random.default_rng(seed + 2)), plan.planes, settings):
        looks += 1
        state = one.judgement.state.value
        states[state] = states.get(state, 0) + 1
        if one.judgement.event in ALARMS:
            alarms.append((one.now, one.judgement.event.value, one.judgement.reason))
    return Day(tuple(alarms), states, looks)


@dataclass(frozen=True, slots=True)
class Injected:
    """One stop. `seconds`: from when it held up a request to the event, None where none came within `patience`.

    `early`: an alarm came before the fault. `visible`: whether the planes that were watched could show it at all.
    `silent`: no plane that can show it answered within 15 s of it, so that nobody could tell. `named`: whether the
    culprit was named, None where the fault has none. `starting`: the incarnation had not produced
    a token yet, so that a stop and a start look alike for a while.
    """

    seconds: float | None
    early: bool
    visible: bool
    named: bool | None
    starting: bool
    silent: bool = False


BAR_SECONDS = 15.0
"""Within which a stop is to be told."""


def inject(plan: Plan, seed: int, patience: float = 45.0, settings: WatchSettings = DEFAULTS) -> Injected | None:
    """A stop at a random moment of the traffic; None where it held nobody up, or the instance was restarted at once."""
    rng = np.random.default_rng(seed)
    warm = WARM_LONGER.get(plan.traffic, WARM_SECONDS)
    fault_at = warm + float(rng.uniform(60, 1800))
    length = int(fault_at) + (4 * 3600 if plan.traffic is Traffic.HOURLY else 1200)
    arrivals = requests(plan.traffic, length, rng)
    # The first pass is the truth: when the fault holds somebody up, and what the engine's gauges show then.
    begins = load = None
    starting = False
    for second in seconds_of(plan.traffic, arrivals, length, np.random.default_rng(seed + 1), fault_at):
        if begins is None and second.stopped:
            begins, load = max(second.at - 1, fault_at), sum(shown(plan.engine, second))
            starting = not second.generated
        if begins is not None and not second.stopped:
            return None  # it was taken down before anybody could tell
        if begins is not None and second.at > begins + patience:
            break
    if begins is None:
        return None
    length = int(begins + patience) + 2
    plan = replace(plan, looks_from=max(begins - warm, 0.0))
    ticks = seconds_of(plan.traffic, arrivals, length, np.random.default_rng(seed + 1), fault_at)
    early = False
    visible = _visible(plan, load)
    taken = list(moments(plan, ticks, np.random.default_rng(seed + 2)))
    silent = bool(visible) and not _answered(visible, [m for m in taken if begins < m.now <= begins + BAR_SECONDS])
    for one in replay(taken, plan.planes, settings):
        if one.judgement.event is not Event.STOPPED:
            continue
        if one.now < begins:
            early = True
            continue
        culprits = [suspect.rank for suspect in one.judgement.suspects if suspect.role.value == "culprit"]
        named = None if plan.stop in (StopKind.LINK, StopKind.ENGINE) else culprits == [plan.culprit]
        return Injected(one.now - begins, early, bool(visible), named, starting, silent)
    return Injected(None, early, bool(visible), None, starting, silent)


def _visible(plan: Plan, load: int | None) -> frozenset[Plane]:
    """The planes that can show this stop: an engine's gauges follow its steps, GPUs spin in most kinds."""
    by_engine = bool(load) and plan.engine is not EngineKind.SGLANG_OLD
    by_hardware = plan.stop is not StopKind.ENGINE
    able = {plane for plane, can in ((Plane.ENGINE, by_engine), (Plane.HARDWARE, by_hardware)) if can}
    return plan.planes & able


def _answered(planes: frozenset[Plane], looks: list[Moment]) -> bool:
    """Whether any of these planes answered at any of these looks."""
    return any(plane not in look.failures for look in looks for plane in planes)


def captured(evidence: Evidence, period: float = DEFAULTS.period) -> Iterator[Moment]:
    """A capture's pages, samples, polls and lines of logs in the order of their times, as looks a period apart.

    Lines are fed by their stamps as `diagnose` anchors them. What has no time, and dumps and process tables, which were
    taken after the fact, is left out.
    """
    timed: list[tuple[float, object]] = []
    for page in evidence.of(EnginePage):
        if page.time is not None and page.time.kind is StampKind.UNIX:
            timed.append((page.time.seconds, replace(page, source="engine/server")))
    for poll in evidence.of(RasPoll):
        if poll.time is not None and poll.time.kind is StampKind.UNIX:
            timed.append((poll.time.seconds, poll))
    for track in evidence.of(GpuTrack):
        timed += [(float(at), _sample(track, index)) for index, at in enumerate(track.time)]
    if not timed:
        return
    timed.sort(key=lambda item: item[0])
    first, last = timed[0][0], timed[-1][0]
    timed += [(max(at, first), line) for at, line in _lines(evidence) if at <= last]
    timed.sort(key=lambda item: item[0])
    facts = [
        replace(one, processes=tuple(replace(p, exit_code=None, exited_at=None, state=None) for p in one.processes))
        for one in evidence.of(InstanceFacts)[-1:]
    ]
    due = first
    held: list[object] = list(facts)
    for at, observation in timed:
        while at > due:
            yield Moment(due - first, due, _newest(held, due - period / 2))
            held = []
            due += period
        held.append(observation)
    yield Moment(due - first, due, _newest(held, due - period / 2))


def _newest(held: list[object], middle: float) -> tuple[object, ...]:
    """What a watch would have brought at this look: of pages the newest, of samples that of each half of the period.

    `middle`: unix seconds at which the second half begins.
    """
    kept: dict[object, object] = {}
    for one in held:
        key: object = id(one)
        if isinstance(one, EnginePage):
            key = (one.source, one.engine)
        elif isinstance(one, GpuTrack):
            key = (one.host, one.gpu, bool(one.time[-1] > middle))
        kept.pop(key, None)
        kept[key] = one
    return tuple(kept.values())


def _lines(evidence: Evidence) -> Iterator[tuple[float, object]]:
    context = contexts.build(evidence, DIAGNOSE)
    for observations in evidence.by_type.values():
        for one in observations:
            at = context.time(getattr(getattr(one, "origin", None), "stamp", None))
            if at is not None:
                yield at, one


def _sample(track: GpuTrack, index: int) -> GpuTrack:
    part = slice(index, index + 1)
    columns = {name: getattr(track, name)[part] for name in COLUMNS}
    return replace(track, time=track.time[part], pids=track.pids[part], **columns)
