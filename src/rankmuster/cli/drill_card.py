"""The card of a drill for the commands that show it: read from its folder, written in a form, and its exit status."""

from __future__ import annotations

from enum import Enum, IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.status import CommandError
from rankmuster.cli.verdict_output import color_wanted, printed

if TYPE_CHECKING:
    from rankmuster.model.drill_card import ScoreCard


class DrillStatus(IntEnum):
    """0 all bars hold, 1 one does not, 2 too little was drilled to say so, 3 nothing was."""

    PASSED = 0
    FAILED = 1
    NOT_ENOUGH = 2
    NO_ANSWER = 3


class CardFormat(str, Enum):
    """How a card is written."""

    TERMINAL = "terminal"
    JSON = "json"
    MD = "md"


def card_of(place: Path) -> ScoreCard:
    """The card in a drill's folder, or in this file. Raises CommandError."""
    from rankmuster.model import drill_card

    path = place / drill_card.CARD if place.is_dir() else place
    try:
        with path.open("rb") as file:
            data = file.read(drill_card.MOST_BYTES + 1)
    except FileNotFoundError as error:
        raise CommandError(f"there is no {path}: name the folder that `rankmuster drill run --output` made") from error
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return drill_card.read(data)
    except ValueError as error:
        raise CommandError(f"{path} is no score card that can be used: {error}") from error


def written(card: ScoreCard, form: CardFormat, output: Path | None) -> str:
    """The card in that form."""
    from rankmuster.report import drill_markdown, drill_text

    if form is CardFormat.JSON:
        return card.to_json()
    if form is CardFormat.MD:
        return drill_markdown.render(card)
    return printed(lambda console: drill_text.render(card, console), width=None, color=color_wanted(False, output))


def status_of(card: ScoreCard) -> DrillStatus:
    """What a card comes to."""
    return {True: DrillStatus.PASSED, False: DrillStatus.FAILED, None: DrillStatus.NOT_ENOUGH}[card.passed]
