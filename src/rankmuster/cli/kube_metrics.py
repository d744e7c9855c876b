"""The controller's page for Prometheus: incidents, what it sees, what it asks of the API server."""

from __future__ import annotations

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.kube.controller.calls import Calls
    from rankmuster.kube.controller.controller import Controller
    from rankmuster.metrics.registry import Registry

READ_SECONDS = 5.0
"""A third of a usual scrape interval."""


class Page:
    """Without an address it counts nothing."""

    def __init__(self, registry: Registry | None, counted: Calls) -> None:
        self._registry, self._counted = registry, counted
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        if registry is not None:
            from rankmuster.metrics import kube

            registry.register(*kube.ALL)
            registry.gauge(kube.LEADS).set(0.0)

    def follow(self, controller: Controller, journal: Any) -> None:
        """From when it leads."""
        if self._registry is None:
            return
        from rankmuster.metrics.incident_counts import IncidentMetrics

        incidents = IncidentMetrics(self._registry, journal)
        self._thread = threading.Thread(target=self._read, args=(controller, incidents), name="metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join(READ_SECONDS)

    def _read(self, controller: Controller, incidents: Any) -> None:
        from rankmuster.metrics import kube
        from rankmuster.model.fault import Progress
        from rankmuster.store.errors import HistoryError

        registry = self._registry
        assert registry is not None  # `follow` begins this thread only then
        leads, objects, instances = (registry.gauge(one) for one in (kube.LEADS, kube.OBJECTS, kube.INSTANCES))
        queue, calls = registry.gauge(kube.QUEUE), registry.counter(kube.CALLS)
        while not self._ended.is_set():
            with contextlib.suppress(HistoryError):  # said by those who work with it
                incidents.read(time.time())
            with registry.together():
                leads.set(1.0)
                for name, count in controller.fleet.counts().items():
                    objects.set(float(count), object=name)
                states = (controller.states.state(one.name) for one in controller.fleet.instances())
                seen = Counter(
                    one.view.state if one is not None and one.view is not None else Progress.UNKNOWN for one in states
                )
                for progress in Progress:
                    instances.set(float(seen[progress]), progress=progress.value)
                depths = controller.depths()
                for name in ("policies", "resources"):
                    queue.set(float(depths[name]), queue=name)
                for (verb, resource, outcome), count in self._counted.counts().items():
                    calls.follow(float(count), verb=verb, resource=resource, outcome=outcome)
            self._ended.wait(READ_SECONDS)


@contextmanager
def page(listen: str | None, counted: Calls) -> Iterator[Page]:
    """Served while the block runs. Raises CommandError where it cannot be."""
    if listen is None:
        yield Page(None, counted)
        return
    from rankmuster.metrics.registry import Registry
    from rankmuster.metrics.scrape import MetricsUnavailable
    from rankmuster.metrics.server import ListenRefused, PageServer

    registry = Registry()
    made = Page(registry, counted)
    try:
        server = PageServer(listen, registry)
    except (ListenRefused, MetricsUnavailable) as error:
        raise CommandError(str(error)) from error
    try:
        yield made
    finally:
        made.close()
        server.close()
