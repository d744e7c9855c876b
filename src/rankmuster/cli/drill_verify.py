"""`rankmuster drill verify`: every bundle of a drill, diagnosed again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rankmuster.cli.drill_card import DrillStatus, given_card
from rankmuster.cli.options import Debug
from rankmuster.cli.output import write_stdout
from rankmuster.cli.status import CommandError, doing


def verify(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="The drill's folder, with its bundles.")],
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Diagnose every bundle of a drill again, on this machine, from nothing but itself, and compare with the card.

    The same bundle gives the same verdict: class, sub-kind and culprits. The card is not changed.

    Exit status: 0 all give the same, 1 one does not, 2 the drill has no bundle, 3 there is no card that can be used.
    """
    with doing("reading the score card"):
        card = given_card(folder).card
    if not folder.is_dir():
        raise CommandError(f"{folder} is a card alone: name the drill's folder, which has the bundles")
    with doing("diagnosing the bundles again"):
        from rankmuster.drill.card_again import again
        from rankmuster.report.inert import inert

        found = {"same": 0, "other": 0}
        for run in card.runs:
            if run.bundle is None:
                continue
            result = again(run, folder)
            found["same" if result.again else "other"] += 1
            said = run.bundle_said if result.again else result.wrongs[-1]
            word = "the same" if result.again else "NOT THE SAME"
            write_stdout(f"{inert(run.name)} {inert(run.bundle)}: {word}: {inert(said)}\n")
    if not sum(found.values()):
        write_stdout("no run of this drill has a bundle\n")
        return DrillStatus.NOT_ENOUGH
    write_stdout(f"{found['same']} of {sum(found.values())} bundles give the same verdict\n")
    return DrillStatus.FAILED if found["other"] else DrillStatus.PASSED
