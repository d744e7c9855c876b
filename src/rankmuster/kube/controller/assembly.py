"""All of the controller's parts, made of its settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.api import Api
from rankmuster.adapters.kube.events import Events
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.journal import Journal
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller.actuators import Making
from rankmuster.kube.controller.controller import Controller, Outside
from rankmuster.kube.controller.fleet import Known
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.states import Asks


@dataclass(frozen=True, slots=True)
class Assembly:
    """`close`: what still waits to be written or uploaded is, until then."""

    controller: Controller
    close: Callable[[float], None]


def assemble(
    settings: ControllerSettings,
    api: Api,
    journal: Journal,
    *,
    holder: str,
    host: str,
    say: Callable[[str], None],
    asks: Asks | None = None,
) -> Assembly:
    """Asks nobody. `asks`: how sidecars are asked for what their watches see; None: over the network."""
    calls, events = AgentCall(settings.token_file), Events(api, host=host)
    made: list[Making] = []

    def tools(known: Known) -> Tools:
        return made[0].tools(known)

    outside = Outside(
        api=api,
        journal=journal,
        asks=asks if asks is not None else calls,
        tools=tools,
        clock=time.monotonic,
        unix_now=time.time,
        say=say,
        holder=holder,
        host=host,
    )
    controller = Controller(settings, outside)
    made.append(
        Making(
            api=api,
            settings=settings,
            journal=journal,
            fleet=controller.fleet,
            calls=calls,
            events=events,
            retest=None,
        )
    )

    def close(seconds: float) -> None:
        events.close(Deadline.after(seconds))

    return Assembly(controller, close)
