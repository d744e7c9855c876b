"""VERIFY: the new incarnation serves, as a request to it or the watch shows. That it runs proves nothing."""

from __future__ import annotations

from rankmuster.incident.bounded_call import bounded
from rankmuster.incident.steps import group as groups
from rankmuster.incident.steps.scene import END_MARGIN, Ended, Scene
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Answer, Ending, EventKind, GroupState, Step

POLL_SECONDS = 1.0
"""Between two attempts."""

PROBE_SECONDS = 10.0
"""Of one request: a first token of a cold engine takes seconds."""

LOOK_SECONDS = 2.0

ENDED_LOOKS = 2
"""Looks in a row that show the group ended before it is believed: a launcher may be seen before its ranks are."""

NO_PROOF = (
    "nothing can show that it serves: configure `probe` for this instance, or let a watch follow it. That its "
    "processes run is no proof, so traffic is not given back"
)


def run(scene: Scene) -> Ended:
    """Data: `incarnation`, `attempts`, `seconds`."""
    observed = scene.past.ending(Step.START) is Ending.OBSERVED
    if observed:
        return Ended(Ending.OBSERVED, "nothing was started, so nothing new can be asked whether it serves")
    followed = scene.setting.followed or scene.config.watch is not None
    if scene.tools.probe is None and not followed and scene.seen() is None:
        return Ended(Ending.FAILED, NO_PROOF)
    incarnation = scene.past.text(Step.START, "incarnation")
    begun, until = scene.clock(), scene.deadline.before(END_MARGIN)
    attempts, gone, last = 0, 0, "nobody has answered yet"
    while not scene.acting.ending:
        attempts += 1
        data = {"incarnation": incarnation, "attempts": attempts}
        probed = _probe(scene, incarnation)
        if probed is not None and probed.ending is Ending.DONE:
            return Ended(Ending.DONE, probed.note or "it answered", {**data, **_took(scene, begun)})
        watched = by_watch(scene)
        if watched is not None:
            return Ended(Ending.DONE, watched, {**data, **_took(scene, begun)})
        last = probed.note if probed is not None and probed.note else last
        ended = _ended(scene)
        gone = gone + 1 if ended is not None else 0
        if ended is not None and gone >= ENDED_LOOKS:
            return Ended(
                Ending.FAILED, f"it ended by itself before it served: {ended}", {**data, **_took(scene, begun)}
            )
        if until.passed:
            why = "" if probed is None else f": {last}"
            return Ended(Ending.TIMED_OUT, f"it did not serve in time{why}", {**data, **_took(scene, begun)})
        scene.wait(min(POLL_SECONDS, max(until.remaining(), 0.01)))
    return Ended(Ending.TIMED_OUT, "it was given up")


def _probe(scene: Scene, incarnation: str | None) -> Answer | None:
    probe = scene.tools.probe
    if probe is None:
        return None
    deadline = scene.deadline.within(PROBE_SECONDS)
    called = bounded(lambda limit: probe.serves(incarnation, limit), deadline, lambda: scene.acting.given_up)
    if called.late:
        return Answer(ending=Ending.TIMED_OUT, note=f"{probe.name} did not come back")
    if not isinstance(called.answer, Answer):
        return Answer(ending=Ending.FAILED, note=f"{probe.name} raised {called.raised}")
    return called.answer


def by_watch(scene: Scene) -> str | None:
    """Why the watch's word is proof that it works now; None where it is none."""
    seen = scene.seen()
    if seen is None or seen.progress not in (Progress.ADVANCING, Progress.IDLE):
        return None
    started = scene.past.at(Step.START)
    since = started if started is not None else scene.past.at(Step.VERIFY)
    if since is None or seen.at <= since:
        return None
    named = scene.past.text(Step.START, "incarnation")
    if started is not None and named is not None and seen.incarnation == named:
        pass  # watch and group call it alike: it may have been seen before START was over
    elif started is not None and seen.incarnation is not None:
        # names that the watch gave before the start are those of the old one
        if seen.incarnation in earlier_incarnations(scene, started):
            return None
    elif started is not None and (seen.since is None or seen.since < started):
        return None
    return f"the watch sees incarnation {seen.incarnation or 'without a name'} {seen.progress.value}"


def earlier_incarnations(scene: Scene, before: float) -> frozenset[str]:
    """What the watch, the group and the opening called the one that was ended."""
    found = {scene.opening.incarnation, scene.past.bound}
    for event in scene.record.events:
        if event.kind is EventKind.SEEN and event.at <= before:
            found.add(event.data.get("incarnation"))
    return frozenset(one for one in found if isinstance(one, str))


def _ended(scene: Scene) -> str | None:
    group = scene.tools.group
    if group is None:
        return None
    look = groups.look_at(group, scene.deadline.within(LOOK_SECONDS), lambda: scene.acting.given_up)
    return groups.told(look) if look.state is GroupState.ENDED else None


def _took(scene: Scene, begun: float) -> dict[str, float]:
    return {"seconds": round(scene.clock() - begun, 3)}
