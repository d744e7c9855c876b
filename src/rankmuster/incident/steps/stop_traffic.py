"""STOP_TRAFFIC: no new requests; those that run go on."""

from __future__ import annotations

from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import Ended, Scene, summed


def run(scene: Scene) -> Ended:
    traffic.note_found(scene)
    return summed(scene.act_all([traffic.stop_new(scene, one) for one in scene.tools.traffic]), traffic.NO_GATEWAY)
