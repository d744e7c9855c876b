"""What `env check` says: one contradiction, with its fix."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from rankmuster.environment.effective import Effective
from rankmuster.environment.given import Given
from rankmuster.environment.version import Version


class Severity(str, Enum):
    """ERROR: evidence will be missing, or the process will not start. WARNING: likely to mislead or to cost.
    NOTE: worth knowing; does not change the exit status."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """`code`: a short name that stays the same; `names`: the variables; `where`: filled in by the check."""

    severity: Severity
    code: str
    names: tuple[str, ...]
    statement: str
    fix: str
    where: str = ""


@dataclass(frozen=True, slots=True)
class Subject:
    """One environment with what its versions make of it."""

    given: Given
    effective: Effective
    torch: Version
    nccl: Version


class Rule(Protocol):
    """A rule looks at one environment; pure."""

    def __call__(self, subject: Subject) -> Iterator[Contradiction]: ...
