"""The metrics of a journal over HTTP, as long as `incident serve` runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.metrics.incident_counts import IncidentMetrics
    from rankmuster.store.journal import Journal

READ_SECONDS = 5.0
"""Between two looks at the journal: a third of a usual scrape interval."""


@contextmanager
def served(listen: str, journal: Journal) -> Iterator[tuple[str, int]]:
    """Gives the address. A journal that cannot be read is said once, and read again; what was counted stays.

    Raises CommandError where the address cannot be listened on, or prometheus_client is not installed.
    """
    from rankmuster.metrics.incident_counts import IncidentMetrics
    from rankmuster.metrics.registry import Registry
    from rankmuster.metrics.scrape import MetricsUnavailable
    from rankmuster.metrics.server import ListenRefused, PageServer

    registry = Registry()
    metrics = IncidentMetrics(registry, journal)
    try:
        server = PageServer(listen, registry)
    except (ListenRefused, MetricsUnavailable) as error:
        raise CommandError(str(error)) from error
    ended = threading.Event()
    thread = threading.Thread(target=_read, args=(metrics, ended), name="incident metrics", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        ended.set()
        server.close()
        thread.join(timeout=READ_SECONDS)


def _read(metrics: IncidentMetrics, ended: threading.Event) -> None:
    from rankmuster.report.inert import plain
    from rankmuster.store.errors import HistoryError

    said = ""
    while True:
        try:
            metrics.read(time.time())
            said = ""
        except HistoryError as error:
            if str(error) != said:
                said = str(error)
                say(f"rankmuster: metrics are not up to date: {plain(said, 400)}")
        if ended.wait(READ_SECONDS):
            return
