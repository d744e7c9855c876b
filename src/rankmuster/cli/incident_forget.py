"""`rankmuster incident forget`: old incidents leave the journal."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rankmuster.cli.history_named import length
from rankmuster.cli.incident_place import JournalPlace, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, ExitStatus


def forget(
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="LENGTH", help="Incidents that were closed longer ago: 90d, 52w."),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; otherwise they are only counted.")] = False,
    journal: JournalPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Remove incidents that were closed long ago from the journal, for ever. Open ones stay, and those of which a node
    is fenced still. Their evidence is left where it lies.

    What is removed is no more counted by limits, and no host is known to have been suspected in it (`again_seconds`).

    Exit status: 0 counted or removed, 3 there is no such journal, or bad usage.
    """
    from rankmuster.report.history_words import when

    seconds = length(older_than, "--older-than")
    if seconds < 1:
        raise CommandError(f"--older-than {older_than!r} would remove every closed incident; name a longer time")
    before = time.time() - seconds
    with opened(journal, "removing old incidents") as store:
        count = store.forget(before, dry=not yes)
        name = store.name
    what = f"{count} incident{'' if count == 1 else 's'} closed before {when(before)} UTC"
    if yes:
        say(f"{name}: removed {what}; their evidence is left where it lies")
    else:
        say(f"{name}: {what} would be removed for ever; nothing was removed, give --yes to do it")
    return ExitStatus.HEALTHY
