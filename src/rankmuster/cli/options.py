"""Options that several commands have, each said once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

# The commands themselves do not use it: main.run reads it from the arguments, where parsing itself may have failed.
Debug = Annotated[
    bool, typer.Option("--debug", help="Show the traceback of an internal error; the same as RANKMUSTER_DEBUG=1.")
]

OutputFile = Annotated[
    Path | None,
    typer.Option("--output", metavar="FILE", help="Write to this file, whole or not at all, instead of the screen."),
]


def named(paths: Sequence[Path | str]) -> str:
    """Paths that were given, in few words."""
    return str(paths[0]) if len(paths) == 1 else f"{paths[0]} and {len(paths) - 1} more"
