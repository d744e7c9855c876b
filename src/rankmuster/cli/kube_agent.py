"""`rankmuster kube agent`: hardware, kernel and topology of a node, and the bundles of its pods."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.cli.told_to_end import told_to_end
from rankmuster.model.kube import AGENT_PORT, TOKEN_FILE


def agent(
    folder: Annotated[
        Path, typer.Option("--folder", metavar="FOLDER", help="Where bundles lie, on the node's own disk.")
    ] = Path("/var/lib/rankmuster"),
    listen: Annotated[
        str, typer.Option("--listen", metavar="HOST:PORT", help="Where sidecars and the controller ask.")
    ] = f"127.0.0.1:{AGENT_PORT}",
    token_file: Annotated[
        Path, typer.Option("--token-file", metavar="FILE", help="The token that whoever asks must have.")
    ] = Path(TOKEN_FILE),
    dcgm_url: Annotated[
        str, typer.Option("--dcgm-url", metavar="URL", help="Page of a DCGM exporter, instead of NVML.")
    ] = "",
    upload: Annotated[
        str, typer.Option("--upload", metavar="URL", help="Copy each bundle there: s3://BUCKET/FOLDER/, file:///PATH/.")
    ] = "",
    upload_deadline: Annotated[
        float, typer.Option("--upload-deadline", metavar="SECONDS", min=1.0, help="Seconds for one upload.")
    ] = 300.0,
    most_bundles: Annotated[
        int, typer.Option("--most-bundles", metavar="COUNT", min=1, help="Bundles that are kept here.")
    ] = 64,
    most_gigabytes: Annotated[
        float, typer.Option("--most-gigabytes", metavar="GB", min=0.01, help="... and what they may take together.")
    ] = 8.0,
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="This node's name; else NODE_NAME.")] = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Hand out what this node says of its pods' ranks, and keep their bundles when the pods are gone.

    It reads NVML or a DCGM exporter's page, /sys and the kernel log; it asks no RAS, no pipe and no engine. It needs
    the host's pid namespace, and no access to the API server.

    Exit status: 0 it was told to end, 3 it could not begin.
    """
    with doing("starting the agent"):
        from rankmuster.kube.agents.agent import AgentSettings, NodeAgent
        from rankmuster.report.inert import plain

        settings = AgentSettings(
            listen=listen,
            token=token_file,
            folder=folder.absolute(),
            dcgm_url=dcgm_url or None,
            upload=upload or None,
            upload_seconds=upload_deadline,
            most_bundles=most_bundles,
            most_bytes=int(most_gigabytes * 1e9),
            node=node or os.environ.get("NODE_NAME", ""),
        )
        try:
            made = NodeAgent(settings, lambda text: say(f"rankmuster: {plain(text, limit=600)}"))
        except OSError as error:
            raise CommandError(f"{folder} cannot be used for bundles: {error.strerror or error}") from error
    stop = threading.Event()
    with told_to_end(stop.set):
        made.run(stop)
    return ExitStatus.HEALTHY
