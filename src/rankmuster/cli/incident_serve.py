"""`rankmuster incident serve`: follows the watch, and runs the runbook of every instance that is configured."""

from __future__ import annotations

import threading
import time
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.incident_named import settings_of
from rankmuster.cli.incident_place import JournalPlace, opened, place
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.cli.told_to_end import told_to_end

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.store.journal import Journal


def serve(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The settings of incidents (YAML).")],
    watch: Annotated[
        Path | None,
        typer.Option("--watch", metavar="FOLDER", help="Where the watch of this node keeps its state file."),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Serve metrics for Prometheus, 127.0.0.1:9465 for instance."
        ),
    ] = None,
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Follow the watch of this node, open an incident for each stop, and run it; take up what was left open.

    Nothing acts that `enable` of the settings does not name. SIGTERM ends it between two actions: what is open stays
    open, and goes on when it is started again.

    Exit status: 0 it was told to end, 3 it could not begin.
    """
    from dataclasses import replace

    from rankmuster.watch.export.state_file import found_state_folder

    settings = settings_of(config)
    if not settings.instances:
        raise CommandError(f"{config} configures no instance: name at least one under `instances`")
    with doing("looking for the watch's state"):
        folder = watch or settings.watch or found_state_folder()
    settings = replace(settings, watch=folder, listen=listen or settings.listen)
    with opened(place(journal or settings.journal or ""), "serving incidents", create=True) as store:
        return _serve(settings, store)


def _serve(settings: IncidentConfig, store: Journal) -> int:
    from rankmuster.cli import incident_runners as runners
    from rankmuster.incident.config_objections import doubts
    from rankmuster.incident.notices import Notices
    from rankmuster.incident.serve import Served, Service

    tools = {name: runners.tools_for(settings, name) for name in settings.instances}
    follower = runners.follower_of(settings, tools, store)
    notices = Notices(settings.hooks, time.monotonic, log_line)
    holder = runners.holder("serve")
    current: dict[str, str] = {}
    made = {}
    for name, one in tools.items():
        made[name] = runners.runner_of(
            settings,
            name,
            one,
            store,
            holder=holder,
            seen=lambda name=name: follower.seen(name),  # type: ignore[misc]
            told=notices.of(name, current),
        )
    stop = threading.Event()
    acting = ", ".join(settings.enable) or "nothing: it only observes"
    with told_to_end(stop.set), _metrics(settings, store):
        for doubt in doubts(settings):
            log_line(f"as things are now, this would fail: {doubt}")
        log_line(f"serving {', '.join(sorted(made))}; journal {store.name}; acting: {acting}")
        with doing("serving incidents"):
            Service(Served(made, follower, store, notices, current), holder, time.monotonic, log_line).run(stop)
    return ExitStatus.HEALTHY


def _metrics(settings: IncidentConfig, store: Journal) -> Any:
    if settings.listen is None:
        return nullcontext()
    from rankmuster.cli.incident_metrics import served

    return served(settings.listen, store)


def log_line(text: str) -> None:
    """A line with its time on standard output, and if nobody takes it, on standard error."""
    stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    from rankmuster.report.inert import plain

    line = f"{stamp} {plain(text, 2_000)}"
    try:
        write_stdout(line + "\n")
    except CommandError:
        say(line)
