"""Actions on gateways, as several steps need them."""

from __future__ import annotations

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Shown, Sight
from rankmuster.incident.actuators import Traffic, Verb
from rankmuster.incident.steps.scene import Scene
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import TrafficLook, TrafficState

ATTEMPT_SECONDS = 2.0
"""Of one attempt at a gateway, which answers in milliseconds."""

NO_GATEWAY = "no gateway is configured for this instance"

WEIGHT_SLACK = 5.0
"""Percent that a weight may differ from what was asked for: gateways keep whole numbers, some of them below 10."""


def reason(scene: Scene) -> str:
    """What gateways tell requests that they refuse."""
    return f"rankmuster incident {scene.incident}: {scene.opening.instance} is {scene.opening.progress.value}"


def told(look: TrafficLook) -> str:
    """A look in words."""
    parts = [f"it is {look.state.value}"]
    if look.running is not None:
        parts.append(f"{look.running} running")
    if look.queued:
        parts.append(f"{look.queued} queued")
    if look.percent is not None:
        parts.append(f"weight {look.percent:.0f} %")
    return ", ".join(parts) + (f" ({look.note})" if look.note else "")


def stop_new(scene: Scene, gateway: Traffic) -> Action:
    why = reason(scene)

    def look(deadline: Deadline) -> Sight:
        seen = gateway.look(deadline)
        return _sight(seen, seen.state in (TrafficState.STOPPED, TrafficState.CUT, TrafficState.ABSENT))

    return Action(
        name=f"{gateway.name}:{Verb.STOP_NEW.value}",
        slot=gateway.name,
        call=lambda deadline, _: gateway.stop_new(why, deadline),
        would=lambda: gateway.would(Verb.STOP_NEW),
        look=look,
        enabled=scene.enabled(ToolRole.TRAFFIC),
        safe=True,
        attempt_seconds=ATTEMPT_SECONDS,
    )


def cut(scene: Scene, gateway: Traffic) -> Action:
    why = reason(scene)

    def look(deadline: Deadline) -> Sight:
        seen = gateway.look(deadline)
        return _sight(seen, seen.state in (TrafficState.CUT, TrafficState.ABSENT))

    return Action(
        name=f"{gateway.name}:{Verb.CUT.value}",
        slot=gateway.name,
        call=lambda deadline, _: gateway.cut(why, deadline),
        would=lambda: gateway.would(Verb.CUT),
        look=look,
        enabled=scene.enabled(ToolRole.TRAFFIC),
        safe=True,
        attempt_seconds=ATTEMPT_SECONDS,
    )


def set_weight(scene: Scene, gateway: Traffic, percent: float) -> Action:
    def look(deadline: Deadline) -> Sight:
        seen = gateway.look(deadline)
        if seen.state is TrafficState.UNKNOWN or (seen.state is TrafficState.READY and seen.percent is None):
            return Sight(Shown.UNKNOWN, told(seen))
        lowered = seen.percent is not None and seen.percent <= percent + WEIGHT_SLACK
        return _sight(seen, lowered or seen.state in (TrafficState.STOPPED, TrafficState.CUT))

    return Action(
        name=f"{gateway.name}:{Verb.SET_WEIGHT.value}",
        slot=gateway.name,
        call=lambda deadline, _: gateway.set_weight(percent, deadline),
        would=lambda: gateway.would(Verb.SET_WEIGHT, percent=percent),
        look=look,
        enabled=scene.enabled(ToolRole.TRAFFIC),
        safe=True,
        attempt_seconds=ATTEMPT_SECONDS,
    )


def is_restored(look: TrafficLook) -> bool:
    return look.state is TrafficState.READY and (look.percent is None or look.percent >= 100.0 - WEIGHT_SLACK)


def restore(scene: Scene, gateway: Traffic, unless: str | None = None, name: str = Verb.RESTORE.value) -> Action:
    def look(deadline: Deadline) -> Sight:
        seen = gateway.look(deadline)
        return _sight(seen, is_restored(seen))

    return Action(
        name=f"{gateway.name}:{name}",
        slot=gateway.name,
        call=lambda deadline, _: gateway.restore(deadline),
        would=lambda: gateway.would(Verb.RESTORE),
        look=look,
        enabled=scene.enabled(ToolRole.TRAFFIC),
        safe=True,
        attempt_seconds=ATTEMPT_SECONDS,
        unless=unless,
    )


def _sight(look: TrafficLook, holds: bool) -> Sight:
    if look.state is TrafficState.UNKNOWN:
        return Sight(Shown.UNKNOWN, told(look))
    return Sight(Shown.HOLDS if holds else Shown.NOT, told(look))
