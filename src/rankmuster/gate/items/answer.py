"""How an item answers: what is wrong first, then what nobody can tell, else that all is well."""

from __future__ import annotations

from dataclasses import dataclass, field

from rankmuster.model.release import Item, ItemResult, ItemState, Proof
from rankmuster.model.unknown import Unknown

MOST_WORDS = 1_000
"""Characters of one thing said: a value may have forty thousand."""


def _clipped(words: str) -> str:
    return words if len(words) <= MOST_WORDS else f"{words[:MOST_WORDS]} [cut]"


@dataclass
class Answer:
    """Gathers what was found while an item is looked at."""

    item: Item
    wrong: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    todo: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    proofs: list[Proof] = field(default_factory=list)
    firm: str = ""

    def fail(self, what: str, todo: str) -> None:
        """It is not as it should be."""
        self.wrong.append(_clipped(what))
        self._do(todo)

    def unknown(self, what: str, todo: str) -> None:
        """It cannot be told."""
        self.open.append(_clipped(what))
        self._do(todo)

    def say(self, detail: str) -> None:
        """What was found besides."""
        self.details.append(_clipped(detail))

    def lacks(self, value: Unknown, todo: str) -> ItemResult:
        """The whole item cannot be told, since a part of the facts is not there."""
        self.unknown(value.reason, todo)
        return self.result("")

    def result(self, well: str) -> ItemResult:
        """`well`: the statement where nothing is wrong and nothing open."""
        told = [*self.wrong, *self.open]
        state = ItemState.FAIL if self.wrong else ItemState.UNKNOWN if self.open else ItemState.PASS
        return ItemResult(
            self.item,
            state,
            told[0] if told else well,
            tuple(self.todo) if told else (),
            (*told[1:], *self.details),
            tuple(dict.fromkeys(self.proofs)),
            firm=self.firm if self.wrong else "",
        )

    def _do(self, todo: str) -> None:
        if todo not in self.todo:
            self.todo.append(todo)
