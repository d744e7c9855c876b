"""`rankmuster kube controller`: runs the runbook and the admission of a cluster."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.kube.controller.settings import ControllerSettings


def controller(
    config: Annotated[Path, typer.Option("--config", metavar="FILE", help="The controller's settings (YAML).")],
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", metavar="FILE", help="Default: the pod's service account, then KUBECONFIG."),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")] = None,
    listen: Annotated[
        str,
        typer.Option("--listen", metavar="HOST:PORT", help="Of metrics and probes, where the settings name none."),
    ] = "",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Act on nothing and write no resource; say what would be done.")
    ] = False,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Follow the instances that CommunicationPolicies name, run the runbook of what stops, and admit nodes.

    Of several controllers one works, by a Lease; the others wait. What may act is named in the settings and in each
    policy, and in nothing else. SIGTERM ends it between two actions: what is open goes on with the next leader.

    Exit status: 0 it was told to end, 1 it leads no more or cannot go on (it is to be started again), 3 it could not
    begin.
    """
    from dataclasses import replace

    settings = _settings(config)
    settings = replace(settings, dry_run=dry_run or settings.dry_run, listen=settings.listen or listen or None)
    missing = [one for one in ("kopf", "kubernetes") if find_spec(one) is None]
    if missing:
        raise CommandError(f"{missing[0]} is not installed: pip install 'rankmuster[kubernetes]'")
    from rankmuster.cli.kube_serving import serve

    with doing("serving the cluster"):
        return serve(settings, kubeconfig, context)


def _settings(path: Path) -> ControllerSettings:
    from rankmuster.incident.config_read import ConfigRefused
    from rankmuster.kube.controller.settings import read

    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the settings {path} cannot be read: {error}") from error
    try:
        return read(text, str(path))
    except ConfigRefused as error:
        raise CommandError(f"{error}; nothing was begun") from error
