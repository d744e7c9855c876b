"""A checklist for a person at a screen: each item with what was found, and what makes it pass."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

from rankmuster.model.release import Checklist, ItemResult, ItemState
from rankmuster.report.inert import inert
from rankmuster.report.release_words import WORDS, headline, short, waiver_words

_STATE, _ITEM = 8, 16
"""Columns of the state and of the item's name."""


def render(checklist: Checklist, width: int, *, details: bool = False) -> str:
    """`width`: columns. `details`: also what was found of items that pass, and the evidence."""
    lines = [inert(headline(checklist)), ""]
    for one in checklist.results:
        lines += _item(one, width, details or one.state is not ItemState.PASS, details)
    return "\n".join(lines) + "\n"


def _item(one: ItemResult, width: int, told: bool, proofs: bool) -> Iterator[str]:
    head = f"{WORDS[one.state]:<{_STATE}}{one.item.value:<{_ITEM}}"
    yield from _wrapped(head, one.statement, width)
    margin = " " * (_STATE + _ITEM)
    if waived := waiver_words(one):
        yield from _wrapped(margin, waived, width)
    if one.note:
        yield from _wrapped(f"{margin}! ", one.note, width)
    if not told:
        return
    for detail in one.details:
        yield from _wrapped(f"{margin}- ", detail, width)
    for todo in one.todo:
        yield from _wrapped(f"{margin}> ", todo, width)
    if proofs:
        for proof in one.proofs:
            yield from _wrapped(f"{margin}evidence: ", f"{proof.name} {short('sha256:' + proof.sha256)}", width)


def _wrapped(head: str, text: str, width: int) -> list[str]:
    return textwrap.wrap(
        inert(text),
        max(width, len(head) + 20),
        initial_indent=head,
        subsequent_indent=" " * len(head),
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]
