"""Options that several commands have, each said once."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.status import CommandError

if TYPE_CHECKING:
    from rankmuster.environment.version import Version

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


def version_of(text: str, option: str) -> Version | None:
    """Of a library, as an option gives it; None where it gives none. Raises CommandError."""
    from rankmuster.environment.version import parse_version

    if not text:
        return None
    try:
        return parse_version(text)
    except ValueError as error:
        raise CommandError(f"{option}: {error}") from error
