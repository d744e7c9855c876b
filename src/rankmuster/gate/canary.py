"""Whether a release keeps its place after its first minutes: against what the approved one did under like load. Pure.

Speeds of looks that follow one another are no independent samples, so the interval of the ratio comes from a bootstrap
over blocks of looks (Kuensch 1989, the moving block bootstrap), with a seed that is always the same: the same samples
give the same answer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from rankmuster.model.canary import Advice, Compared, Judged, Serving, Trouble
from rankmuster.model.fault import Progress
from rankmuster.report.release_words import moment
from rankmuster.watch.progress.model import Event
from rankmuster.watch.snapshot import InstanceView

TOLERANCE = 0.10
"""A release may be so much slower than the approved one: batches of the same size differ by that much in their prompts'
lengths (docs/measured.md, the watch's own judgement of speed)."""
LEAST_LOOKS = 24
"""Of one load, on each side: two minutes at the watch's default of a look in 5 s."""
BLOCK = 6
"""Looks: half a minute, over which speeds hang together (a batch of requests lives that long)."""
DRAWS = 2000
"""Of the bootstrap: the ends of a 99 % interval rest on 10 of them each."""
CONFIDENCE = 0.99
MOST_SPEEDS = 1000
"""Of one load that are kept: an hour and a half of looks."""
LOST_SHARE = 0.10
"""Of the looks after the first busy one, that may say nothing: a page now and then fails."""
STALL = 0.5
"""Below this part of the baseline's median speed a look has caught a stall."""
STALLS, MANY_STALLS = 0.05, 0.10
"""More of the looks than at the baseline: from the first on it is not sure, from the second on it is rolled back."""
THIN_SHARE = 0.10
"""Of the busy looks, that may be at loads which cannot be compared."""
_BAD_EVENTS = {
    Event.GONE.value: "its processes have ended",
    Event.LOST_SIGHT.value: "the watch lost sight of it",
    Event.RESTARTED.value: "it was started anew, or its counters began anew",
}


class Gathered:
    """Looks at one instance, one by one, as they come."""

    def __init__(self, instance: str, release: str | None) -> None:
        self._serving = Serving(instance, release, 0.0, 0.0, 0, 0, 0, (), {}, {})
        self._stops: int | None = None
        self._lasting: frozenset[str] = frozenset()

    def add(self, at: float, view: InstanceView | None) -> None:
        """One look at `at` (unix seconds); None: the watch does not see the instance."""
        before = self._serving
        self._serving = replace(
            before, begun_at=before.begun_at or at, ended_at=at, looks=before.looks + 1, states=_counted(before, view)
        )
        found = dict(self._troubles(view))
        new = tuple(Trouble(at, what) for kind, what in found.items() if kind not in self._lasting)
        self._lasting = frozenset(found)
        self._serving = replace(self._serving, troubles=(*self._serving.troubles, *new))
        if view is not None:
            if view.incarnation and view.incarnation not in before.incarnations:
                self._serving = replace(self._serving, incarnations=(*before.incarnations, view.incarnation))
            self._stops = view.stops
            self._speed(view)

    def _troubles(self, view: InstanceView | None) -> Iterator[tuple[str, str]]:
        """(kind, in words) of what is wrong at this look; one that lasts is told once."""
        if view is None:
            yield "not seen", "the watch does not see it"
            return
        seen = self._serving.incarnations
        if seen and view.incarnation and view.incarnation not in seen:
            yield f"anew {view.incarnation}", f"it was started anew ({view.incarnation})"
        if view.state in (Progress.STOPPED, Progress.SLOW):
            yield view.state.value, f"it is {view.state.value}: {view.reason}"
        elif self._stops is not None and view.stops > self._stops:
            yield f"stop {view.stops}", f"it stopped between two looks ({view.stops} stops so far)"
        if view.event in _BAD_EVENTS:
            yield view.event, _BAD_EVENTS[view.event]

    def _speed(self, view: InstanceView) -> None:
        serving = self._serving
        speed = view.tokens_per_s if view.running else None
        if view.state is Progress.ADVANCING and view.running and speed is not None and speed >= 0:
            load = str(1 << (int(view.running).bit_length() - 1)) if view.running >= 1 else "1"
            had = serving.speeds.get(load, ())
            speeds = {**serving.speeds, load: (*had, speed / view.running)[-MOST_SPEEDS:]}
            self._serving = replace(serving, busy=serving.busy + 1, speeds=speeds)
        elif serving.busy and (view.running or view.state in (Progress.STARTING, Progress.UNKNOWN)):
            self._serving = replace(serving, lost=serving.lost + 1)

    @property
    def serving(self) -> Serving:
        """All of it so far."""
        return self._serving


def judge(canary: Serving, baseline: Serving | None) -> Judged:
    """`baseline`: of the approved release; None: there is none, and only what is bad by itself is known."""
    if canary.troubles:
        return Judged(Advice.ROLL_BACK, tuple(f"{moment(one.at)}: {one.what}" for one in canary.troubles))
    if why := _unfit(canary, baseline):
        return Judged(Advice.UNDECIDED, (why,))
    assert baseline is not None
    compared = tuple(
        _compared(load, speeds, baseline.speeds[load])
        for load, speeds in sorted(canary.speeds.items(), key=lambda one: int(one[0]))
        if len(speeds) >= LEAST_LOOKS and len(baseline.speeds.get(load, ())) >= LEAST_LOOKS
    )
    if not compared:
        return Judged(Advice.UNDECIDED, (_too_little(canary, baseline),))
    bad = [_words(one, "slower than the approved release") for one in compared if one.high < 1 - TOLERANCE]
    bad += [_stall_words(one) for one in compared if one.stalls >= MANY_STALLS]
    if bad:
        return Judged(Advice.ROLL_BACK, tuple(bad), compared)
    unsure = [_words(one, "not sure yet") for one in compared if not one.low >= 1 - TOLERANCE]
    unsure += [_stall_words(one) for one in compared if one.stalls >= STALLS]
    thin = canary.busy - sum(one.canary for one in compared)
    if thin > THIN_SHARE * canary.busy:
        unsure.append(f"{thin} of {canary.busy} busy looks were at loads of which there is too little to compare")
    if unsure:
        return Judged(Advice.UNDECIDED, (*unsure, "watch it for longer"), compared)
    return Judged(Advice.KEEP, tuple(_words(one, "as fast as the approved release") for one in compared), compared)


def _unfit(canary: Serving, baseline: Serving | None) -> str:
    """Why nothing can be compared; empty where it can."""
    if not canary.busy:
        seen = ", ".join(f"{state} {count}" for state, count in canary.states.items()) or "nothing"
        return f"no request was seen to run while it was watched (looks: {seen}): give it traffic"
    if canary.lost > LOST_SHARE * (canary.busy + canary.lost):
        return f"of {canary.busy + canary.lost} looks {canary.lost} could say nothing of its speed: see rankmuster top"
    if baseline is None:
        return "there is nothing to hold it against: --record keeps this as the first measure, or name a --baseline"
    if baseline.troubles:
        return f"what it would be held against was itself in trouble: {baseline.troubles[0].what}"
    slow = [
        load for load, speeds in baseline.speeds.items() if len(speeds) >= LEAST_LOOKS and not np.median(speeds) > 0
    ]
    if slow:
        return f"what it would be held against made no tokens at {', '.join(slow)} and more requests"
    return ""


def _counted(before: Serving, view: InstanceView | None) -> dict[str, int]:
    state = view.state.value if view is not None else "not seen"
    return {**before.states, state: before.states.get(state, 0) + 1}


def _too_little(canary: Serving, baseline: Serving) -> str:
    told = "; ".join(
        f"{name}: {', '.join(f'{len(speeds)} at {load}+ requests' for load, speeds in one.speeds.items()) or 'none'}"
        for name, one in (("the canary", canary), ("the baseline", baseline))
    )
    return f"no load was seen {LEAST_LOOKS} times on both sides ({told}): watch it for longer, under the same load"


def _compared(load: str, canary: Sequence[float], baseline: Sequence[float]) -> Compared:
    ours, theirs = np.asarray(canary), np.asarray(baseline)
    random = np.random.default_rng(int(load))
    usual = float(np.median(theirs))
    resampled = _medians(theirs, random)
    ratios = _medians(ours, random) / np.where(resampled > 0, resampled, usual)
    edge = (1 - CONFIDENCE) / 2
    low, high = np.quantile(ratios, [edge, 1 - edge])
    stalls = float(np.mean(ours < STALL * usual) - np.mean(theirs < STALL * usual))
    return Compared(
        load, len(ours), len(theirs), float(np.median(ours)) / usual, float(low), float(high), max(stalls, 0.0)
    )


def _medians(values: NDArray[np.float64], random: np.random.Generator) -> NDArray[np.float64]:
    """Of DRAWS resamples, each of blocks of looks that follow one another, from a ring of all of them."""
    count = -(-len(values) // BLOCK)
    starts = random.integers(0, len(values), size=(DRAWS, count))
    index = (starts[:, :, None] + np.arange(BLOCK)) % len(values)
    found: NDArray[np.float64] = np.median(values[index.reshape(DRAWS, -1)[:, : len(values)]], axis=1)
    return found


def _words(one: Compared, said: str) -> str:
    return (
        f"at {one.load} and more requests {said}: {one.ratio:.2f} of its speed (99 % interval {one.low:.2f} to "
        f"{one.high:.2f}; {one.canary} looks against {one.baseline})"
    )


def _stall_words(one: Compared) -> str:
    return (
        f"at {one.load} and more requests it stalls: {one.stalls:.0%} more of its looks than of the approved release "
        "are below half of the usual speed"
    )
