"""Actions on gateways, as several steps need them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.collect.deadline import Deadline
from rankmuster.incident.act import Action, Shown, Sight
from rankmuster.incident.actuators import Traffic, Verb
from rankmuster.incident.as_found import AS_FOUND, READY, STOPPED, Found, found, noted
from rankmuster.incident.bounded_call import bounded
from rankmuster.incident.steps.scene import Scene
from rankmuster.incident.tools import ToolRole
from rankmuster.model.incident import Step, TrafficLook, TrafficState

ATTEMPT_SECONDS = 2.0
"""Of one attempt at a gateway, which answers in milliseconds."""

NO_GATEWAY = "no gateway is configured for this instance"

WEIGHT_SLACK = 5.0
"""Percent that a weight may differ from what was asked for: gateways keep whole numbers, some of them below 10."""

FOUND_SECONDS = 0.5
"""Of the look at a gateway before anything is touched: it takes from the seconds in which traffic is stopped."""

TOUCHING = (Step.SHED, Step.STOP_TRAFFIC, Step.CUT)


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


def set_weight(
    scene: Scene, gateway: Traffic, percent: float, *, unless: str | None = None, opened: bool = False
) -> Action:
    """`opened`: it has to be ready too; else one that is stopped gets little enough."""

    def look(deadline: Deadline) -> Sight:
        seen = gateway.look(deadline)
        if seen.state is TrafficState.UNKNOWN or (seen.state is TrafficState.READY and seen.percent is None):
            return Sight(Shown.UNKNOWN, told(seen))
        lowered = seen.percent is not None and seen.percent <= percent + WEIGHT_SLACK
        if opened:
            return _sight(seen, lowered and seen.state is TrafficState.READY)
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
        unless=unless,
    )


def is_restored(look: TrafficLook, before: Found = READY) -> bool:
    """At the weight that it had before."""
    full = 100.0 if before.percent is None else before.percent
    return look.state is TrafficState.READY and (look.percent is None or look.percent >= full - WEIGHT_SLACK)


def note_found(scene: Scene) -> None:
    """Before the first action on traffic: writes down which gateways others have stopped, or given another weight."""
    if not scene.enabled(ToolRole.TRAFFIC) or any(scene.past.intended(step) for step in TOUCHING):
        return
    if any(AS_FOUND in one.data for one in scene.record.events):
        return
    looks = {}
    for gateway in scene.tools.traffic:
        called = bounded(gateway.look, scene.deadline.within(FOUND_SECONDS), lambda: scene.acting.given_up)
        looks[gateway.name] = called.answer if isinstance(called.answer, TrafficLook) else None
    there = noted(looks)
    if not there:
        return
    earlier = scene.setting.permits.found_earlier()
    if earlier is not None:
        # what the incident before this one left so is ours to give back
        scene.note("what traffic lacks was taken by the incident before this one", {AS_FOUND: earlier})
        return
    words = ", ".join(f"{name} was {_before(one)}" for name, one in there.items())
    scene.note(f"before this incident {words}: others did that, and it stays so", {AS_FOUND: there})


def found_at(scene: Scene, gateway: Traffic) -> Found:
    return found(scene.record.events, gateway.name)


def is_done_with(scene: Scene, gateway: Traffic) -> bool:
    """Whether others had stopped it and nothing runs there: a cut would only change how they had stopped it."""
    if not found_at(scene, gateway).stopped:
        return False
    called = bounded(gateway.look, scene.deadline.within(FOUND_SECONDS), lambda: scene.acting.given_up)
    look = called.answer
    return isinstance(look, TrafficLook) and look.state in STOPPED and look.running == 0 and not look.queued


def _before(one: Mapping[str, Any]) -> str:
    percent = one.get("percent")
    return f"{one['state']}" + (f" at {percent:.0f} %" if percent is not None else "")


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
