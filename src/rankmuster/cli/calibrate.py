"""`rankmuster calibrate`: recorded load in, sizes and time-outs out."""

from __future__ import annotations

import shutil
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile, version_of
from rankmuster.cli.output import deliver
from rankmuster.cli.slim_numpy import load_numpy
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.environment.wrapped import WIDEST

if TYPE_CHECKING:
    from rankmuster.environment.recorded import Recorded

MOST_WINDOW = 86_400.0  # seconds; a day


class Format(str, Enum):
    """How a calibration is written."""

    TERMINAL = "terminal"
    JSON = "json"
    SHELL = "shell"


def calibrate(
    given: Annotated[
        list[str],
        typer.Argument(metavar="BUNDLE...", help="Bundles, or any folders or archives of evidence, of ordinary load."),
    ],
    window: Annotated[
        float | None,
        typer.Option("--window", metavar="SECONDS", min=0.1, max=MOST_WINDOW, help="Time that the ring must hold."),
    ] = None,
    torch: Annotated[
        str, typer.Option("--torch", metavar="VERSION", help="torch's version, for the names of the variables.")
    ] = "",
    form: Annotated[
        Format, typer.Option("--format", help="terminal: to read; json: the schema; shell: the variables, to source.")
    ] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Compute ring, dump, log and time-out sizes from recorded load, and say what each costs.

    Several bundles are taken together: several looks at one instance, or one load with a setting on and off.

    Exit status: 0 every setting is decided, 2 some are not (the answer says what is missing), 3 nothing could be used.
    """
    with doing("loading the program"):
        load_numpy()
        from rankmuster.environment import calibrate_form
        from rankmuster.environment.calibration import DEFAULT_WINDOW, NothingRecorded
        from rankmuster.environment.calibration import calibrate as compute
        from rankmuster.environment.version import ASSUMED_TORCH

    version = version_of(torch, "--torch") or ASSUMED_TORCH
    bundles = [_load(path) for path in given]
    with doing("calibrating"):
        try:
            result = compute(bundles, window=window or DEFAULT_WINDOW, torch=version)
        except NothingRecorded as error:
            raise CommandError(f"{', '.join(given[:3])}: {error}") from error
        if form is Format.JSON:
            text = calibrate_form.as_json(result)
        elif form is Format.SHELL:
            text = calibrate_form.as_shell(result)
        else:
            width = min(WIDEST, shutil.get_terminal_size((WIDEST, 24)).columns)
            text = calibrate_form.as_text(result, width)
    deliver(text, output)
    return ExitStatus.HEALTHY if result.decided else ExitStatus.UNDECIDED


def _load(path: str) -> Recorded:
    """One bundle at a time: what was measured is small, what was read is not."""
    from rankmuster.cli.reading import reading
    from rankmuster.environment.recorded import recorded
    from rankmuster.evidence.bundle import load

    if not path:
        raise CommandError("a BUNDLE is empty (a variable that is not set?); name a folder or archive of evidence")
    with reading(f"the evidence in {path}", path):
        return recorded(path, load(Path(path)))
