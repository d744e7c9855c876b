"""The card of a drill for the commands that show it: read from its folder, written in a form, and its exit status."""

from __future__ import annotations

import json
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class GivenCard:
    """A card that was read, and the bytes that it was read from: with what a later version added to it."""

    card: ScoreCard
    data: bytes

    @property
    def text(self) -> str:
        """The document as it was sealed. A drill writes ASCII; what is not is escaped, and says the same."""
        if self.data.isascii():
            return self.data.decode("ascii")
        return json.dumps(json.loads(self.data), sort_keys=True, separators=(",", ":"), allow_nan=False) + "\n"


def given_card(place: Path) -> GivenCard:
    """The card in a drill's folder, or in this file. Raises CommandError."""
    from rankmuster.evidence.given_file import CannotRead, bytes_in
    from rankmuster.model import drill_card

    path = place
    try:
        path = place / drill_card.CARD if place.is_dir() else place
        data = bytes_in(path, drill_card.MOST_BYTES, "score card")
    except CannotRead as error:
        if isinstance(error.__cause__, FileNotFoundError) and not path.is_symlink():
            words = f"there is no {path}: name the folder that `rankmuster drill run --output` made"
            raise CommandError(words) from error
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    try:
        return GivenCard(drill_card.read(data), data)
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
