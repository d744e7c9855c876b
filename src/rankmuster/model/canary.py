"""How a release serves in a window of time, as a canary measured it, and what follows of two of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

SCHEMA = "rankmuster.canary/1"


class Advice(str, Enum):
    """UNDECIDED: too little was seen; it is no leave to keep it."""

    KEEP = "keep"
    ROLL_BACK = "roll_back"
    UNDECIDED = "undecided"


@dataclass(frozen=True, slots=True)
class Trouble:
    """Something that a release must not do in its first minutes. `at`: unix seconds."""

    at: float
    what: str


@dataclass(frozen=True, slots=True)
class Serving:
    """What was seen of one instance. Times in unix seconds. `release`: hash of the approval that counted then, or None.

    `looks`: of the watch; `busy`: those with requests running and a speed; `lost`: after the first busy one, those of
    which nothing can be said: no page, starting, unknown, requests running without a speed. `incarnations`: all that
    were seen, in order. `states`: how many looks found each. `speeds`: tokens per second and running request, in the
    order of the looks, by load: the largest power of two not above the requests that ran ("8").
    """

    instance: str
    release: str | None
    begun_at: float
    ended_at: float
    looks: int
    busy: int
    lost: int
    incarnations: tuple[str, ...]
    states: Mapping[str, int]
    speeds: Mapping[str, tuple[float, ...]]
    troubles: tuple[Trouble, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """One load. `ratio`: the median of the canary's speeds over the baseline's; `low`, `high`: its 99 % interval.
    `stalls`: how much greater the share of looks below half of the usual speed is than at the baseline."""

    load: str
    canary: int
    baseline: int
    ratio: float
    low: float
    high: float
    stalls: float = 0.0


@dataclass(frozen=True, slots=True)
class Judged:
    """`reasons`: the first is the one that counts."""

    advice: Advice
    reasons: tuple[str, ...]
    compared: tuple[Compared, ...] = ()
