"""`rankmuster run`: the whole process group of this host as one command, ended whole and started whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.options import Debug
from rankmuster.cli.status import CommandError, doing
from rankmuster.environment.variable import Engine
from rankmuster.supervise.settings import (
    GRACE_SECONDS,
    RESTART_SECONDS,
    RESTARTS,
    OnEnd,
    RunProfile,
    RunSettings,
)

MOST_GRACE = 3600.0


def run(
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="What to run, after `--`: torchrun, a server, a script.")
    ],
    instance: Annotated[
        str | None,
        typer.Option("--instance", metavar="NAME", help="The instance's name (RANKMUSTER_INSTANCE, else default)."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Where its control socket, its record and its lock are."),
    ] = None,
    on_end: Annotated[
        OnEnd, typer.Option("--on-end", help="When the command ends by itself: exit, restart, or wait for an incident.")
    ] = OnEnd.EXIT,
    grace: Annotated[
        float,
        typer.Option("--grace", metavar="SECONDS", min=0.0, max=MOST_GRACE, help="Between SIGTERM and SIGKILL."),
    ] = GRACE_SECONDS,
    restarts: Annotated[
        int, typer.Option("--restarts", metavar="N", min=1, max=1000, help="With restart: at most so many ...")
    ] = RESTARTS,
    within: Annotated[
        float,
        typer.Option("--within", metavar="SECONDS", min=1.0, max=86_400.0, help="... within so many seconds."),
    ] = RESTART_SECONDS,
    profile: Annotated[
        RunProfile, typer.Option("--profile", help="The logging profile of every start; what you set yourself stays.")
    ] = RunProfile.STEADY,
    torch: Annotated[str, typer.Option("--torch", metavar="VERSION", help="torch's version, like 2.11.")] = "",
    nccl: Annotated[str, typer.Option("--nccl", metavar="VERSION", help="NCCL's version, like 2.28.9.")] = "",
    engine: Annotated[Engine | None, typer.Option("--engine", help="The serving engine.")] = None,
    evidence: Annotated[
        Path | None, typer.Option("--evidence", metavar="FOLDER", help="Where the profile puts dumps and logs.")
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", metavar="FILE", help="Append the command's output here, not to ours.")
    ] = None,
    metrics_url: Annotated[
        str | None, typer.Option("--metrics-url", metavar="URL", help="Its metrics page, for whoever asks.")
    ] = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Run a process group of this host as one: started whole, ended whole, never two at once.

    Everything that the command starts belongs to it, whatever session, name or parent it gives itself, and is ended
    with it: SIGTERM to all, --grace, SIGKILL to all. `rankmuster incident` asks over the control socket to end it (and
    is told when every process is gone and GPU memory is free), and to start it anew.

    Exit status: the command's own, 128+N where signal N ended it, or this; 126 it cannot be run, 127 it was not found,
    125 something of it cannot be ended, 3 nothing was begun.
    """
    with doing("starting the supervisor"):
        settings = _settings(
            command, instance, folder, on_end, grace, restarts, within, profile, torch, nccl, engine, evidence, log,
            metrics_url,
        )  # fmt: skip
        from rankmuster.cli.run_process import become

        become(settings, dict(os.environ))


def _settings(
    command: list[str],
    instance: str | None,
    folder: Path | None,
    on_end: OnEnd,
    grace: float,
    restarts: int,
    within: float,
    profile: RunProfile,
    torch: str,
    nccl: str,
    engine: Engine | None,
    evidence: Path | None,
    log: Path | None,
    metrics_url: str | None,
) -> RunSettings:
    """Raises CommandError."""
    from rankmuster.adapters.supervisor_wire import default_run_folder, socket_path
    from rankmuster.collect.find.seen import INSTANCE
    from rankmuster.environment.place import usable_folder
    from rankmuster.environment.version import parse_version
    from rankmuster.supervise.start_environment import default_evidence_folder

    name = instance if instance is not None else os.environ.get(INSTANCE) or "default"
    run_folder = folder if folder is not None else default_run_folder()
    dumps = os.path.abspath(evidence) if evidence is not None else default_evidence_folder(os.environ)
    try:
        socket_path(run_folder, name)
        usable_folder(dumps)
        for version in (torch, nccl):
            if version:
                parse_version(version)
    except ValueError as error:
        raise CommandError(str(error)) from error
    if any("\0" in one for one in command) or not command[0]:
        raise CommandError("the command is empty, or has a NUL in it")
    return RunSettings(
        name=name,
        command=tuple(command),
        folder=os.path.abspath(run_folder),
        evidence=dumps,
        on_end=on_end,
        grace=grace,
        restarts=restarts,
        within=within,
        profile=profile,
        torch=torch,
        nccl=nccl,
        engine=engine.value if engine is not None else "",
        log=os.path.abspath(log) if log is not None else None,
        metrics_url=metrics_url,
    )
