"""`rankmuster kube sidecar`: watches the instance of its pod, and hands out its evidence."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import say
from rankmuster.cli.status import ExitStatus, doing
from rankmuster.cli.told_to_end import told_to_end
from rankmuster.model.kube import EVIDENCE_FOLDER, SIDECAR_PORT, TOKEN_FILE

WORK_FOLDER = Path("/rankmuster/work")


def sidecar(
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where the controller asks; a pod's own address.")
    ] = f"127.0.0.1:{SIDECAR_PORT}",
    token_file: Annotated[
        Path, typer.Option("--token-file", metavar="FILE", help="The token that whoever asks must have.")
    ] = Path(TOKEN_FILE),
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="Where the ranks leave dumps, pipes and logs.")
    ] = Path(EVIDENCE_FOLDER),
    work: Annotated[
        Path, typer.Option("--work", metavar="FOLDER", help="A folder of its own, which the engine cannot write.")
    ] = WORK_FOLDER,
    agent: Annotated[str, typer.Option("--agent", metavar="URL", help="The node's agent, http://HOST_IP:9466.")] = "",
    metrics_url: Annotated[
        str,
        typer.Option("--metrics-url", metavar="URL", help="The engine's metrics page, if it is not found by itself."),
    ] = "",
    instance: Annotated[
        str, typer.Option("--instance", metavar="NAME", help="The instance's name, as its ranks have it.")
    ] = "",
    pod_uid: Annotated[str, typer.Option("--pod-uid", metavar="UID", help="This pod's; else POD_UID.")] = "",
    pod_name: Annotated[str, typer.Option("--pod-name", metavar="NAME", help="This pod's; else POD_NAME.")] = "",
    metrics_listen: Annotated[
        str,
        typer.Option("--metrics-listen", metavar="HOST:PORT", help="Serve the watch's metrics for Prometheus there."),
    ] = "",
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=2.0, max=3600.0, help="From SIGTERM until it must be gone."),
    ] = 25.0,
    period: Annotated[
        float, typer.Option("--period", metavar="SECONDS", min=1.0, max=60.0, help="Seconds between two looks.")
    ] = 5.0,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Watch the instance of this pod, hand out its evidence, and save what is left when it ends.

    It asks RAS on loopback, takes dumps and logs, and reads the engine's page. GPUs are the node agent's. It ends for
    nothing but a signal: in a pod a restart of any container counts.

    Exit status: 0 it was told to end.
    """
    with doing("starting the sidecar"):
        from rankmuster.kube.agents.sidecar import Sidecar, SidecarSettings
        from rankmuster.report.inert import plain

        if metrics_listen and not _prometheus():
            say("rankmuster: prometheus_client is missing here, so there are no metrics for Prometheus")
            metrics_listen = ""
        settings = SidecarSettings(
            listen=listen,
            token=token_file.absolute(),
            folder=folder.absolute(),
            work=work.absolute(),
            agent=_with_brackets(agent) or None,
            metrics_url=metrics_url or None,
            instance=instance,
            pod_uid=pod_uid or os.environ.get("POD_UID", ""),
            pod_name=pod_name or os.environ.get("POD_NAME", ""),
            grace=grace,
            watch_listen=metrics_listen or None,
            period=period,
        )
        made = Sidecar(settings, lambda text: say(f"rankmuster: {plain(text, limit=600)}"))
    stop = threading.Event()
    with told_to_end(stop.set):
        made.run(stop)
    return ExitStatus.HEALTHY


def _with_brackets(agent: str) -> str:
    """The downward API gives a node's IPv6 address as it is, and `kube inject` cannot know which kind it will be."""
    parts = re.fullmatch(r"(https?://)([0-9a-fA-F]*:[0-9a-fA-F:]+):([0-9]+)", agent)
    return f"{parts[1]}[{parts[2]}]:{parts[3]}" if parts else agent


def _prometheus() -> bool:
    from importlib.util import find_spec

    return find_spec("prometheus_client") is not None
