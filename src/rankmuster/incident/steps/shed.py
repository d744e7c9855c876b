"""SHED: a slow instance gets less, and goes on.

One whose traffic was stopped, since it was thought to have stopped, and that is only slow gets some of it again.
"""

from __future__ import annotations

from rankmuster.incident.actuators import Traffic
from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import Ended, Scene, summed
from rankmuster.model.fault import Progress
from rankmuster.model.incident import Answer, Step


def run(scene: Scene) -> Ended:
    traffic.note_found(scene)
    gateways = [one for one in scene.tools.traffic if not traffic.found_at(scene, one).stopped]
    if scene.tools.traffic and not gateways:
        return summed((), "others had stopped its traffic before this incident: it gets nothing already")
    opened: tuple[Answer, ...] = ()
    reopens = was_stopped(scene) and serves(scene)
    if reopens:
        opened = scene.act_all([traffic.restore(scene, one) for one in gateways])
    lowered = [traffic.set_weight(scene, one, less(scene, one), opened=reopens) for one in gateways]
    return summed([*opened, *scene.act_all(lowered)], traffic.NO_GATEWAY)


def less(scene: Scene, gateway: Traffic) -> float:
    """Percent that it keeps: never more than it had."""
    before = traffic.found_at(scene, gateway).percent
    return scene.config.slow.percent if before is None else min(scene.config.slow.percent, before)


def was_stopped(scene: Scene) -> bool:
    """Whether this incident has stopped its traffic, and not given it back."""
    incident = scene.record.incident
    return incident.last(Step.STOP_TRAFFIC, acted=True) > incident.last(Step.RESTORE, acted=True)


def serves(scene: Scene) -> bool:
    """Slow by the watch; or by the evidence alone, where no watch says anything."""
    decision = scene.decision
    return decision is not None and decision.progress in (Progress.SLOW, Progress.UNKNOWN)
