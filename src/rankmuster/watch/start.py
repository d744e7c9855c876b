"""Puts a watch together from its configuration, and runs it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from threading import Event

from rankmuster import __version__
from rankmuster.collect.machine import Machine
from rankmuster.model.fault import Progress
from rankmuster.watch.agent import Agent
from rankmuster.watch.build import Signals
from rankmuster.watch.config import WatchConfig
from rankmuster.watch.events import Severity, Told
from rankmuster.watch.export.folders import default_bundle_folder, default_state_folder
from rankmuster.watch.finding import Finder
from rankmuster.watch.parts import Parts, Sink
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.refused import doubts, objections
from rankmuster.watch.respond.responder import Responder
from rankmuster.watch.sinks import StateSink

MOST_OBJECTIONS = 5
"""Told at once: whoever corrects these sees the next."""

UNNAMED = "instance"
"""What one is called whose pages alone are known."""


class CannotStart(Exception):
    """Nothing was begun; the message says why and what to change."""


def run(config: WatchConfig, tell: Callable[[Told], None], wake: Event, seconds: float | None = None) -> Progress:
    """Watches until `wake` is set, or for so many seconds; the state that speaks for the node at the end.

    `tell`: writes one event. Raises CannotStart.
    """
    wrong = objections(config)
    if wrong:
        raise CannotStart("; ".join(wrong[:MOST_OBJECTIONS]))
    machine = Machine()

    def note(text: str) -> None:
        tell(Told(time.time(), Severity.NOTE, "", "note", text))

    # Absolute: collections and diagnoses are run in another working folder.
    state = (config.state or default_state_folder()).absolute()
    bundles = (config.on_stop.bundles or (state / "stops" if config.state else default_bundle_folder())).absolute()
    for doubt in doubts(config, bundles):
        note(doubt)
    sinks: list[Sink] = [StateSink(state, note, stays=seconds is not None)]
    if config.listen is not None:
        sinks.append(_exporter(config.listen, note))
    responder = Responder(config, bundles, time.monotonic, time.time)
    trouble = responder.remember(machine.hostname)
    if trouble is not None:
        note(f"earlier stops are not known: {trouble}")
    named, unnamed = _given(config)
    builder = Signals(config, machine, time.monotonic, time.time)
    parts = Parts(
        finder=Finder(
            machine, config.instances, config.pids, find_seconds=config.find_seconds, own_gpus=builder.own_gpus
        ),
        builder=builder,
        responder=responder,
        sinks=tuple(sinks),
        tell=tell,
        host=machine.hostname,
        version=__version__,
        draining_file=config.draining_file,
        given=named,
        given_unnamed=unnamed,
        settings=settings_of(config),
    )
    return Agent(parts, wake).run(seconds)


def settings_of(config: WatchConfig) -> WatchSettings:
    """By what instances are judged."""
    settings = WatchSettings.of(config.period)
    if config.start_seconds is None:
        return settings
    return replace(settings, start_seconds=config.start_seconds, start_ends=True)


def _given(config: WatchConfig) -> tuple[tuple[str, ...], str | None]:
    """Instances that are watched by their pages even where none of their processes can be seen (another pod's)."""
    named = tuple(name for name in config.engine.urls if name != "*")
    if "*" not in config.engine.urls or config.pids:
        return named, None
    if len(config.instances) == 1:
        return tuple(dict.fromkeys((*named, *config.instances))), None
    return named, UNNAMED


def _exporter(listen: str, note: Callable[[str], None]) -> Sink:
    from rankmuster.metrics.scrape import MetricsUnavailable
    from rankmuster.metrics.server import ListenRefused
    from rankmuster.watch.export.exporter import Exporter
    from rankmuster.watch.sinks import ExportSink

    try:
        exporter = Exporter(listen)
    except (MetricsUnavailable, ListenRefused) as error:
        raise CannotStart(str(error)) from error
    host, port = exporter.address
    note(f"metrics for Prometheus on http://{f'[{host}]' if ':' in host else host}:{port}/metrics")
    return ExportSink(exporter)
