"""All of the controller's parts, made of its settings."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rankmuster.adapters.kube.agent_call import AgentCall
from rankmuster.adapters.kube.api import Api
from rankmuster.adapters.kube.events import Events
from rankmuster.collect.deadline import Deadline
from rankmuster.incident.actuators import Retest
from rankmuster.incident.journal import Journal
from rankmuster.incident.tools import Tools
from rankmuster.kube.controller.actuators import Making
from rankmuster.kube.controller.controller import Controller
from rankmuster.kube.controller.copies import Copies
from rankmuster.kube.controller.fingerprints import Fingerprints
from rankmuster.kube.controller.fleet import Fleet, Known
from rankmuster.kube.controller.outside import Outside
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.kube.controller.states import Asks

if TYPE_CHECKING:
    from rankmuster.kube.admission.work import AdmissionWork
    from rankmuster.store.history import History


@dataclass(frozen=True, slots=True)
class Assembly:
    """`close`: what still waits to be written or copied is, until then."""

    controller: Controller
    close: Callable[[float], None]


class _Parts:
    """What needs one another, made one after the other."""

    making: Making
    controller: Controller
    fingerprints: Fingerprints


def assemble(
    settings: ControllerSettings,
    api: Api,
    journal: Journal,
    *,
    history: History | None = None,
    namespace: str = "rankmuster",
    holder: str,
    host: str,
    say: Callable[[str], None],
    asks: Asks | None = None,
) -> Assembly:
    """Asks nobody. `history` None: nothing is admitted. `namespace`: the controller's own. `asks`: how sidecars are
    asked for what their watches see; None: over the network."""
    calls, events, parts = AgentCall(settings.token_file), Events(api, host=host), _Parts()
    copies = Copies(settings, lambda incident: parts.controller.uploaded(incident), say)
    fleet = Fleet()

    def tools(known: Known) -> Tools:
        return parts.making.tools(known)

    admission: AdmissionWork | None = None
    if history is not None and not settings.dry_run:  # what it would do stands in its objects, which are written
        admission = _admission(settings, api, history, parts, namespace, say, events)
    outside = Outside(
        api=api,
        journal=journal,
        asks=asks if asks is not None else calls,
        tools=tools,
        admission=admission,
        clock=time.monotonic,
        unix_now=time.time,
        say=say,
        holder=holder,
        host=host,
        uploaded=copies.where,
        fingerprints=lambda: parts.fingerprints.turn(),
        node_labels=tuple(settings.admission.nodes),
    )
    parts.controller = Controller(settings, outside, fleet)

    def changed(node: str) -> None:
        view = next((one for one in fleet.nodes() if one.name == node), None)
        if admission is not None and view is not None:
            admission.node_changed(view)

    parts.fingerprints = Fingerprints(calls, fleet, settings.agent_port, clock=time.monotonic, changed=changed)
    parts.making = Making(
        api=api,
        settings=settings,
        journal=journal,
        fleet=fleet,
        calls=calls,
        events=events,
        retest=_retest(settings, api, history, namespace),
        copies=copies,
        newer=parts.controller.newer,
    )

    def close(seconds: float) -> None:
        with ExitStack() as stack:
            stack.callback(parts.fingerprints.close)
            stack.callback(copies.close, seconds / 2)
            stack.callback(lambda: events.close(Deadline.after(seconds / 2)))

    return Assembly(parts.controller, close)


def _admission(
    settings: ControllerSettings,
    api: Api,
    history: History,
    parts: _Parts,
    namespace: str,
    say: Callable[[str], None],
    events: Events,
) -> AdmissionWork:
    from rankmuster.kube.admission.work import AdmissionWork

    return AdmissionWork(
        api,
        settings.admission,
        history,
        time.monotonic,
        time.time,
        lambda node: parts.fingerprints.of(node),
        say,
        acting="admission" in settings.enable and not settings.dry_run,
        image=settings.image,
        namespace=namespace,
        relist_seconds=settings.resync_seconds,
        events=events,
    )


def _retest(settings: ControllerSettings, api: Api, history: History | None, namespace: str) -> Retest:
    """By the Jobs of admission, judged by the fleet's history."""
    from rankmuster.adapters.kube.job_retest import JobRetest
    from rankmuster.kube.admission.retest import judge_alone, judge_pair

    return JobRetest(
        api,
        settings.admission.job,
        image=settings.image,
        namespace=namespace,
        judge=judge_alone(history, settings.admission),
        judge_pair=judge_pair(settings.admission),
    )
