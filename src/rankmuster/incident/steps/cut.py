"""CUT: what still runs ends now, with an error that says why where the gateway can."""

from __future__ import annotations

from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import Ended, Scene, summed


def run(scene: Scene) -> Ended:
    """Data: `requests`, how many were hit; null where a gateway does not say."""
    traffic.note_found(scene)
    gateways = [one for one in scene.tools.traffic if not traffic.is_done_with(scene, one)]
    if scene.tools.traffic and not gateways:
        return summed((), "others had stopped its traffic before this incident, and nothing runs any more")
    answers = scene.act_all([traffic.cut(scene, one) for one in gateways])
    ended = summed(answers, traffic.NO_GATEWAY)
    hit = [one.data.get("requests") for one in answers]
    counts = [one for one in hit if isinstance(one, int) and not isinstance(one, bool)]
    data = {"requests": sum(counts) if counts and len(counts) == len(hit) else None}
    return Ended(ended.ending, ended.note, data)
