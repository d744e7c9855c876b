"""The card of a drill while it is drilled: written anew after every row, and not complete until all of it is.

Whatever ends a drill, what was done is not lost, and is not taken for the whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.drill import rank_settings
from rankmuster.drill.card_again import again
from rankmuster.drill.card_machine import MachineFacts
from rankmuster.model.drill_card import CARD, DrillRun, ScoreCard

Tell = Callable[[DrillRun], None]
"""Is given each row as it comes."""


@dataclass(frozen=True, slots=True)
class About:
    """What a card says beside its rows, as `ScoreCard` has it."""

    target: str
    machine: MachineFacts
    artefact: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)


class CardBook:
    """`output`: the drill's folder. Raises OSError where it cannot be written to."""

    def __init__(self, about: About, output: Path, tell: Tell) -> None:
        self._about, self._output, self._tell = about, output, tell
        self._rows: list[DrillRun] = []
        self._write(complete=False)

    def keep(self, row: DrillRun) -> None:
        """One row; its bundle is diagnosed again first."""
        self._rows.append(again(row, self._output))
        self._write(complete=False)
        self._tell(self._rows[-1])

    def close(self) -> ScoreCard:
        """All was done."""
        return self._write(complete=True)

    def _write(self, *, complete: bool) -> ScoreCard:
        card = ScoreCard(
            target=self._about.target,
            made_at=time.time(),
            complete=complete,
            machine=self._about.machine.machine,
            fingerprint=self._about.machine.fingerprint,
            artefact=self._about.artefact,
            settings=rank_settings.kept(self._output),
            options=self._about.options,
            runs=tuple(self._rows),
        )
        part = self._output / f".{CARD}.part"
        part.write_text(card.to_json(), encoding="ascii")
        part.replace(self._output / CARD)
        return card
