"""`rankmuster watch`: is the instance advancing, slow, idle or stopped, look after look."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, doing
from rankmuster.collect.wishes import RasRisk
from rankmuster.watch.events import Form

if TYPE_CHECKING:
    from rankmuster.watch.config import WatchConfig


def watch(
    config: Annotated[
        Path | None,
        typer.Option("--config", metavar="FILE", help="Settings (YAML); options given here go before it."),
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="NAME", help="Only this one; may be given several times."),
    ] = None,
    pid: Annotated[
        list[int] | None,
        typer.Option(
            "--pid",
            metavar="PID",
            min=1,
            max=1 << 22,
            help="Only the instance of this process; may be given several times.",
        ),
    ] = None,
    metrics_url: Annotated[
        list[str] | None,
        typer.Option("--metrics-url", metavar="URL", help="A server's metrics page, where it is not found by itself."),
    ] = None,
    period: Annotated[
        float | None, typer.Option("--period", metavar="SECONDS", min=1.0, max=60.0, help="Seconds between two looks.")
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option(
            "--listen", metavar="HOST:PORT", help="Serve metrics for Prometheus, 127.0.0.1:9464 for instance."
        ),
    ] = None,
    state: Annotated[
        Path | None, typer.Option("--state", metavar="FOLDER", help="Where the state file goes, which top reads.")
    ] = None,
    bundles: Annotated[
        Path | None, typer.Option("--bundles", metavar="FOLDER", help="Where the evidence of a stop goes.")
    ] = None,
    collect: Annotated[
        bool | None, typer.Option("--collect/--no-collect", help="Save the evidence of a stop, and diagnose it.")
    ] = None,
    ras_risk: Annotated[
        RasRisk | None,
        typer.Option("--ras-risk", help="When to ask RAS on NCCL versions whose answer can crash the job."),
    ] = None,
    form: Annotated[Form, typer.Option("--format", help="How events are written to standard output.")] = Form.TEXT,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", metavar="SECONDS", min=1.0, help="End after so long, with the state as exit status."),
    ] = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Watch the instances of this node, and say when one stops, slows down, or goes on.

    Runs for ever, as a node's agent or as a sidecar; it needs nothing of the instance's own processes and survives
    their end. What it judges is progress: an engine whose health endpoint says 200 while no token moves has stopped,
    one without requests has not. On a stop it saves the evidence once (as collect does) and diagnoses it; nothing is
    restarted. A line goes to standard output for everything that is new.

    Exit status when it was told to end, or after --seconds: 0; with --seconds 1 where an instance has stopped or is
    slow, and 2 where it cannot be told; 3 where it could not begin.
    """
    settings = _settings(
        config,
        instances=tuple(instance or ()) or None,
        pids=tuple(pid or ()) or None,
        metrics_urls=tuple(metrics_url or ()),
        period=period,
        listen=listen,
        state=state,
        bundles=bundles,
        collect=collect,
        ras_risk=ras_risk,
    )
    with doing("starting the watch"):
        from rankmuster.cli.watch_process import become

        become(settings, form, seconds)


def _settings(
    file: Path | None,
    *,
    instances: tuple[str, ...] | None,
    pids: tuple[int, ...] | None,
    metrics_urls: tuple[str, ...],
    period: float | None,
    listen: str | None,
    state: Path | None,
    bundles: Path | None,
    collect: bool | None,
    ras_risk: RasRisk | None,
) -> WatchConfig:
    """The file's settings, with what the command line gives in their place."""
    from rankmuster.watch.config import MAX_BYTES, ConfigRefused, WatchConfig, read

    settings = WatchConfig()
    if file is not None:
        try:
            with file.open(encoding="utf-8") as opened:
                settings = read(opened.read(MAX_BYTES + 1), str(file))
        except OSError as error:
            raise CommandError(f"cannot read {file}: {error.strerror or error}") from error
        except UnicodeDecodeError as error:
            raise CommandError(f"{file} is no text in UTF-8 ({error.reason} at byte {error.start})") from error
        except ConfigRefused as error:
            raise CommandError(str(error)) from error
    top = {"instances": instances, "pids": pids, "period": period, "listen": listen, "state": state}
    given: dict[str, Any] = {name: value for name, value in top.items() if value is not None}
    if metrics_urls:
        names = instances or ("*",)
        urls = {**settings.engine.urls, **dict.fromkeys(names[:1], metrics_urls)}
        given["engine"] = replace(settings.engine, urls=urls)
    if ras_risk is not None:
        given["ras"] = replace(settings.ras, risk=ras_risk)
    stop: dict[str, Any] = {}
    if bundles is not None:
        stop["bundles"] = bundles
    if collect is not None:
        stop |= {"collect": collect, "diagnose": collect}
    if stop:
        given["on_stop"] = replace(settings.on_stop, **stop)
    return replace(settings, **given)
