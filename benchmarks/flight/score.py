"""How an answer compares with the truth: right culprit, none, a wrong one, or a crash."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from benchmarks.flight.truth import Truth


class Score(str, Enum):
    """RIGHT: exactly who did it, or nobody where nobody did, or where the dumps separate nobody. PARTLY: some of
    several, no innocent. NONE: nobody, though the dumps tell. WRONG: an innocent rank is named; a healthy job called
    faulty counts as that too."""

    RIGHT = "right"
    PARTLY = "partly"
    NONE = "no answer"
    WRONG = "wrong culprit"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a tool said. `culprits` None: it crashed, and `said` is how. `fault`: it says that something is wrong."""

    culprits: frozenset[int] | None
    fault: bool
    said: str
    suspects: frozenset[int] = frozenset()


def score(answer: Answer, truth: Truth) -> Score:
    """The score of one answer."""
    if answer.culprits is None:
        return Score.CRASH
    guilty = frozenset(truth.culprits)
    if answer.culprits - guilty or (answer.fault and not truth.is_fault):
        return Score.WRONG
    suspected = truth.suspicion_is_right and guilty <= answer.suspects
    if answer.culprits == guilty or (not answer.culprits and (truth.may_be_silent or suspected)):
        return Score.RIGHT
    return Score.PARTLY if answer.culprits else Score.NONE


def overlooked(answer: Answer, truth: Truth) -> bool:
    """Whether a job that stands still was called healthy."""
    return truth.stands and truth.is_fault and answer.said.startswith("healthy")


def tally(scores: Iterable[Score]) -> Counter[Score]:
    return Counter(scores)
