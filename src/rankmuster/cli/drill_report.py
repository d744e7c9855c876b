"""`rankmuster drill report`: the score card of a drill."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.drill_card import CardFormat, given_card, status_of, written
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver
from rankmuster.cli.status import doing


def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The drill's folder, or a card alone.")],
    form: Annotated[
        CardFormat,
        typer.Option("--format", help="terminal: to read; json: the card as it is sealed; md: for a ticket or a wiki."),
    ] = CardFormat.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show the score card of a drill: each number beside its bar, every run, and why it did not pass.

    A card that was changed after it was written is refused.

    Exit status: 0 passed, 1 failed, 2 not enough (no fault could be judged, controls were left out, the drill was ended
    early), 3 there is no card that can be used.
    """
    with doing("reading the score card"):
        given = given_card(folder)
    with doing("writing the score card"):
        text = given.text if form is CardFormat.JSON else written(given.card, form, output)
    deliver(text, output)
    return status_of(given.card)
