"""What a difference does to NCCL's choices: the shape of a rule, and the order of consequence.

Rules stand in tables, one a subject (`rules_*`), each with the source of its claim; the first whose pattern and
condition fit speaks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from fnmatch import fnmatchcase

from rankmuster.baseline.fingerprint.leaves import Leaf
from rankmuster.model.fingerprint import KIN_FIELDS, Fingerprint
from rankmuster.model.unknown import Unknown

BASELINE = "the baseline of the class, every profile"
PROFILE = "the baseline of this profile"
ADMISSION = "the admission of the node"
KNOWN = "the fingerprint, with what is unknown given"
DUMPS = "NCCL's topology and graph dumps, and the algorithms it chose"


class Weight(IntEnum):
    """How much a difference matters; the least stands first."""

    FAILS = 0  # communicators are not made, or hang
    PATH = 1  # another transport or way
    SLOWER = 2  # the same way, narrower
    UNKNOWN = 3  # it cannot be told whether it changed
    CLASS = 4  # other versions or hardware: not comparable
    NODE = 5  # another machine or part of the same kind
    NOTE = 6  # nothing known


@dataclass(frozen=True, slots=True)
class Difference:
    """`path`: as in `leaves`; `before`, `after`: None for absent. `one`, `other`: the fingerprints themselves."""

    path: str
    before: Leaf
    after: Leaf
    one: Fingerprint
    other: Fingerprint

    @property
    def of_class(self) -> bool:
        """Whether the class hash is over it."""
        return self.path in KIN_FIELDS or self.path.startswith("settings/")

    @property
    def undecided(self) -> bool:
        """Whether a side is unknown, so that nobody can say whether they differ."""
        return isinstance(self.before, Unknown) or isinstance(self.after, Unknown)

    @property
    def fell(self) -> bool:
        """Whether a number became smaller."""
        numbers = (self.before, self.after)
        if not all(isinstance(one, (int, float)) and not isinstance(one, bool) for one in numbers):
            return False
        return float(self.after) < float(self.before)  # type: ignore[arg-type]

    @property
    def lost(self) -> bool:
        """Whether it is not there any more, or not set."""
        return self.after is None


@dataclass(frozen=True, slots=True)
class Rule:
    """`pattern`: of the path, `*` for anything. `effect`: words, or what makes them. `source`: of the claim.

    `when`: whether it speaks of this difference; None for always, but never where a side is unknown unless
    `of_unknown`.
    """

    pattern: str
    weight: Weight
    effect: str | Callable[[Difference], str]
    source: str
    regenerate: tuple[str, ...] = ()
    when: Callable[[Difference], bool] | None = None
    of_unknown: bool = False

    def fits(self, difference: Difference) -> bool:
        """Whether it speaks of this difference."""
        if difference.undecided and not self.of_unknown:
            return False
        return fnmatchcase(difference.path, self.pattern) and (self.when is None or self.when(difference))

    def words(self, difference: Difference) -> str:
        """What the difference does."""
        return self.effect if isinstance(self.effect, str) else self.effect(difference)
