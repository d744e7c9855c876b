"""RESTORE: new requests come again, at full weight; or as it was before the incident, where others had changed that."""

from __future__ import annotations

from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import Ended, Scene, summed
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Ending, Step


def run(scene: Scene) -> Ended:
    unless = observed_only(scene)
    before = {one.name: traffic.found_at(scene, one) for one in scene.tools.traffic}
    ours = [one for one in scene.tools.traffic if not before[one.name].stopped]
    if scene.tools.traffic and not ours:
        return summed((), "others had stopped its traffic before this incident: that is theirs to give back")
    answers = scene.act_all([traffic.restore(scene, one, unless) for one in ours])
    lowered = []
    for gateway, answer in zip(ours, answers, strict=True):
        percent = before[gateway.name].percent
        if percent is not None and answer.ending in (Ending.DONE, Ending.PARTIAL, Ending.OBSERVED):
            lowered.append(traffic.set_weight(scene, gateway, percent, unless=unless, opened=True))
    return summed([*answers, *scene.act_all(lowered)], traffic.NO_GATEWAY)


def observed_only(scene: Scene) -> str | None:
    """Why traffic is not given back although it could be; None where it is.

    A group that was only said to be rebuilt still stands as it stood: requests would go into it and hang.
    """
    if scene.past.ending(Step.VERIFY) is not Ending.OBSERVED or not scene.past.intended(Step.STOP_TRAFFIC):
        return None
    seen = scene.seen()
    if seen is not None and seen.progress in (Progress.ADVANCING, Progress.IDLE):
        return None
    return "nothing was rebuilt, so traffic stays stopped until somebody has done so"
