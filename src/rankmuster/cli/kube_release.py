"""`rankmuster kube release`: takes away everything that is ours in a cluster and holds something."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rankmuster.adapters.kube.client import Client
    from rankmuster.adapters.kube.letting_go import Held

LIST_SECONDS = 120.0


def release(
    yes: Annotated[bool, typer.Option("--yes", help="Do it; without it only what would be done is listed.")] = False,
    untested: Annotated[
        bool, typer.Option("--untested", help="Also let in nodes that admission keeps out, tested or not.")
    ] = False,
    namespace: Annotated[
        str | None, typer.Option("--namespace", metavar="NAME", help="Of pods and policies; default: all.")
    ] = None,
    kubeconfig: Annotated[
        Path | None,
        typer.Option("--kubeconfig", metavar="FILE", help="Default: KUBECONFIG, then ~/.kube/config, then the pod's."),
    ] = None,
    context: Annotated[str | None, typer.Option("--context", metavar="NAME", help="Of the kubeconfig.")] = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Open closed gates, give parked labels back, lift fences of incidents, let policies go: before an uninstall, or
    where no controller runs any more.

    What others have set stays. End the controller first: one that runs would set again what its incidents need.

    Exit status: 0 nothing of ours holds anything (or, without --yes, it is listed), 1 something could not be taken
    away, 3 bad usage, or the API server could not be asked.
    """
    from rankmuster.adapters.kube.api import KubeError

    with doing("looking for what is held"):
        try:
            api = _connected(kubeconfig, context)
            found = list(_held(api, namespace, untested))
        except KubeError as error:
            raise CommandError(str(error)) from error
    if not found:
        say("nothing of ours holds anything")
        return ExitStatus.HEALTHY
    failed = 0
    for one in found:
        if not yes:
            write_stdout(f"would let go: {one.what}\n")
            continue
        try:
            write_stdout(f"{one.what}: {one.let_go()}\n")
        except KubeError as error:
            failed += 1
            write_stdout(f"{one.what}: not let go: {error}\n")
    if not yes:
        say(f"{len(found)} found; --yes lets go of them")
    return ExitStatus.FAULT if failed else ExitStatus.HEALTHY


def _connected(kubeconfig: Path | None, context: str | None) -> Client:
    from importlib.util import find_spec

    if find_spec("kubernetes") is None:
        raise CommandError("kubernetes is not installed: pip install 'rankmuster[kubernetes]'")
    from rankmuster.adapters.kube.client import connect

    return connect(kubeconfig, context)


def _held(api: Client, namespace: str | None, untested: bool) -> Iterator[Held]:
    from rankmuster.adapters.kube import letting_go
    from rankmuster.adapters.kube.api import NODES, PODS
    from rankmuster.collect.deadline import Deadline

    deadline = Deadline.after(LIST_SECONDS)
    yield from letting_go.finalizers(api, namespace, deadline)
    pods = api.list(PODS, namespace, deadline)
    yield from letting_go.gates(api, pods)
    yield from letting_go.labels(api, pods)
    nodes = api.list(NODES, None, deadline)
    yield from letting_go.fences(api, nodes)
    if untested:
        yield from letting_go.admission_taints(api, nodes)
