"""One question asked of many parts (GPUs, ports, links): one check for all that are well, one for each that is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.report.size_words import size_words

MOST_NAMED = 8
"""Parts named in one sentence; an NVL72 has 72 GPUs with the same trouble."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one part answered."""

    subject: str
    state: CheckState
    statement: str
    advice: str = ""
    evidence: tuple[str, ...] = ()


def gathered(
    name: str,
    group: CheckGroup,
    answers: Sequence[Answer],
    *,
    kind: str,
    well: str,
    required: bool = False,
) -> list[Check]:
    """One pass for all that pass (`well` says what is true of them, `kind` what they are), then the others alone.

    Parts with the very same trouble share a check. No parts: no check.
    """
    passed = [answer for answer in answers if answer.state is CheckState.PASS]
    checks = []
    if passed:
        subject = passed[0].subject if len(passed) == 1 else f"{len(passed)} {kind}"
        checks.append(Check(name, group, CheckState.PASS, subject, well, required=required))
    same: dict[tuple[CheckState, str, str], list[Answer]] = {}
    for answer in answers:
        if answer.state is not CheckState.PASS:
            same.setdefault((answer.state, answer.statement, answer.advice), []).append(answer)
    for (state, statement, advice), those in same.items():
        evidence = tuple(dict.fromkeys(reference for answer in those for reference in answer.evidence))
        subject = named([answer.subject for answer in those])
        checks.append(Check(name, group, state, subject, statement, advice, evidence[:MOST_NAMED], required))
    return checks


def named(subjects: Sequence[str]) -> str:
    """Some names in one phrase."""
    more = len(subjects) - MOST_NAMED
    shown = ", ".join(subjects[:MOST_NAMED])
    return f"{shown} and {more} more" if more > 0 else shown


def sizes_named(sizes: Sequence[int]) -> str:
    """Some sizes, given in bytes, in one phrase."""
    more = len(sizes) - MOST_NAMED
    return ", ".join(map(size_words, sizes[:MOST_NAMED])) + (f" and {more} more sizes" if more > 0 else "")
