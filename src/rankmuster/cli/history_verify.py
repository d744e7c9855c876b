"""`rankmuster history verify`: is every run as it was stored?"""

from __future__ import annotations

from typing import Annotated

import typer

from rankmuster.cli.history_place import HistoryPlace, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import ExitStatus

MOST_NAMED = 20
"""Changed runs that are named one by one; a table that was changed by hand has thousands."""


def verify(
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the runs that are not as they were stored, for ever.")
    ] = False,
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Make every run's record anew from what is stored, and name those that say something else than when they came.

    A decision looks at a shorter digest of the runs that it reads, and refuses where one of them was changed.

    Exit status: 0 every run is as it was stored, 1 some are not (with --remove: were not), 3 there is no such history,
    or bad usage.
    """
    with opened(history, "verifying the runs") as store:
        from rankmuster.store import verify as checks

        found = checks.remove_changed(store) if remove else checks.verify(store)
        name = store.name
    for one in found.changed[:MOST_NAMED]:
        write_stdout(f"{one.record}: {one.why}\n")
    if not found.changed:
        write_stdout(f"{name}: all {found.runs} runs are as they were stored\n")
        return ExitStatus.HEALTHY
    said = f"{name}: {len(found.changed)} of {found.runs} runs are not as they were stored"
    say(f"{said}, and were removed" if remove else f"{said}; restore a copy, or give --remove to go on without them")
    return ExitStatus.FAULT
