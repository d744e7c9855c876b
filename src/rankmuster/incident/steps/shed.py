"""SHED: a slow instance gets less, and goes on."""

from __future__ import annotations

from rankmuster.incident.steps import traffic
from rankmuster.incident.steps.scene import Ended, Scene, summed


def run(scene: Scene) -> Ended:
    percent = scene.config.slow.percent
    return summed(
        scene.act_all([traffic.set_weight(scene, one, percent) for one in scene.tools.traffic]), traffic.NO_GATEWAY
    )
