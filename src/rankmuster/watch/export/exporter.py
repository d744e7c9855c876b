"""The watch's exporter: everything it knows as metrics, served over HTTP to Prometheus."""

from __future__ import annotations

from rankmuster.metrics.registry import Registry
from rankmuster.metrics.server import PageServer
from rankmuster.watch.export.bundle_counts import BundleCounts
from rankmuster.watch.export.fill_looks import LookMetrics
from rankmuster.watch.export.fill_signals import SignalMetrics
from rankmuster.watch.export.fill_stops import StopMetrics
from rankmuster.watch.respond.outcome import StopOutcome
from rankmuster.watch.signals.signal import Counted
from rankmuster.watch.snapshot import Snapshot


class Exporter:
    """Listens on `listen` (`HOST:PORT`; without a host the loopback) from when it is made until `close`.

    Parts of the program that count something themselves register it in `registry`, before or after. Nothing that it is
    told raises: a number that cannot be is left out. `update` is for the watch's loop, all others for any thread.
    Raises `metrics.server.ListenRefused`, and `metrics.scrape.MetricsUnavailable` without prometheus_client.
    """

    def __init__(self, listen: str, registry: Registry | None = None) -> None:
        self.registry = registry if registry is not None else Registry()
        self._looks = LookMetrics(self.registry)
        self._signals = SignalMetrics(self.registry)
        self._stops = StopMetrics(self.registry)
        self._known: frozenset[str] = frozenset()
        self._server = PageServer(listen, self.registry)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that it listens on."""
        return self._server.address

    def update(self, snapshot: Snapshot) -> None:
        """After each look. Instances that are in it no more lose their gauges now, and their counts after a while."""
        here = frozenset(view.name for view in snapshot.instances)
        with self.registry.together():
            for name in sorted(here - self._known):
                self._signals.begin(name)
                self._stops.begin(name)
            self._known = here
            self._looks.take(snapshot)

    def counted(self, instance: str, what: Counted) -> None:
        """What a signal counted: calls of collectives ("collective"), steps of an engine ("step")."""
        self._signals.counted(instance, what)

    def heard(self, instance: str, observation: object) -> None:
        """Every observation that a signal brings, so that time-outs in logs are counted."""
        self._signals.heard(instance, observation)

    def stop_outcome(self, instance: str, outcome: StopOutcome) -> None:
        """Once, when all that is done on a stop has ended."""
        self._stops.take(instance, outcome)

    def bundle_counts(self, instance: str, counts: BundleCounts) -> None:
        """Calls and dumps of a stop's bundle, as the process of `bundle_counts.command` printed them."""
        self._signals.bundle(instance, counts)

    def close(self) -> None:
        """Gives the port back."""
        self._server.close()
