"""The watches of the API server, by kopf: what they tell goes to the fleet, nothing is written by them.

kopf lists in pages, follows, and begins anew when the server has forgotten where it was (410). All handlers are plain
events: neither annotations nor finalizers of kopf get onto anybody's objects.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rankmuster.adapters.kube.api import NODES, PODS, Kind
from rankmuster.kube.controller.settings import ControllerSettings
from rankmuster.model.kube import FIELD_MANAGER

PAGE = 250
"""Objects of one page of a list: of pods it is about 5 MB."""

CONNECT_SECONDS = 10.0
SERVER_SECONDS = 290
"""For one watch: API servers end it after five to ten minutes anyway."""

Told = Callable[[Any, bool], None]
"""One object, and whether it is gone."""


class Watching:
    """`sinks`: who is told of which kind, from kopf's own thread; what they raise is said and passed over.

    `label_keys`: of nodes. `failed`: told why the watches have ended by themselves: without them nobody knows anything,
    and the process has to end.
    """

    def __init__(
        self,
        settings: ControllerSettings,
        sinks: dict[Kind, Told],
        *,
        kubeconfig: Path | None,
        context: str | None,
        say: Callable[[str], None],
        failed: Callable[[str], None],
    ) -> None:
        self._settings, self._sinks = settings, sinks
        self._kubeconfig, self._context = kubeconfig, context
        self._say, self._failed = say, failed
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._told: set[str] = set()

    def start(self) -> None:
        """Begins, in a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="kopf", daemon=True)
        self._thread.start()

    def stop(self, seconds: float) -> None:
        """Ends them, and waits so long."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(seconds)

    def _run(self) -> None:
        import kopf

        logging.getLogger("kopf").setLevel(logging.WARNING)
        try:
            asyncio.run(
                kopf.operator(
                    registry=self._registry(),
                    settings=self._operator_settings(),
                    standalone=True,
                    clusterwide=not self._settings.namespaces,
                    namespaces=list(self._settings.namespaces),
                    stop_flag=self._stop,
                    identity=FIELD_MANAGER,  # type: ignore[arg-type]
                )
            )
            why = "they ended"
        except Exception as error:
            why = f"{type(error).__name__}: {error}"
        except asyncio.CancelledError:
            why = "they were cancelled"
        if not self._stop.is_set():
            self._failed(f"the watches of the API server have ended: {why}")

    def _registry(self) -> Any:
        import kopf

        registry = kopf.OperatorRegistry()
        kopf.on.login(registry=registry)(self._login)
        for kind, told in self._sinks.items():
            place = (kind.group, kind.version, kind.plural) if kind.group else (kind.version, kind.plural)
            kopf.on.event(*place, registry=registry, id=kind.plural)(self._handler(kind, told))
        return registry

    def _handler(self, kind: Kind, told: Told) -> Callable[..., Any]:
        async def handle(event: Any, **_: Any) -> None:
            try:
                told(event["object"], event["type"] == "DELETED")
            except Exception as error:  # one object that is odd must not end the watch of all
                said = f"{kind.kind}: {type(error).__name__}: {error}"
                if said not in self._told and len(self._told) < 100:
                    self._told.add(said)
                    self._say(f"an object could not be understood, and is left aside: {said}")

        return handle

    def _login(self, **arguments: Any) -> Any:
        """As our own client does it: one place that knows how to get in."""
        from rankmuster.adapters.kube.kopf_login import connection

        return connection(self._kubeconfig, self._context, **arguments)

    def _operator_settings(self) -> Any:
        import kopf

        settings = kopf.OperatorSettings()
        settings.posting.enabled = False
        settings.watching.chunk_size = PAGE
        settings.watching.server_timeout = SERVER_SECONDS
        settings.watching.connect_timeout = CONNECT_SECONDS
        settings.networking.request_timeout = 60.0
        settings.queueing.idle_timeout = 1.0
        settings.queueing.exit_timeout = 1.0
        settings.process.ultimate_exiting_timeout = None
        if self._settings.pods:
            settings.watching.label_selectors[PODS.version, PODS.plural] = self._settings.pods
        if self._settings.nodes:
            settings.watching.label_selectors[NODES.version, NODES.plural] = self._settings.nodes
        return settings
