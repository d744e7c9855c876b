"""One environment variable: who reads it, in which versions, what it does when it is not set."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rankmuster.environment.version import Version, at_least, at_most


class Reader(str, Enum):
    """The program that reads a variable."""

    TORCH = "torch"
    NCCL = "nccl"
    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    RANKMUSTER = "rankmuster"


class Engine(str, Enum):
    """The serving engine, as people name it on the command line."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TRTLLM = "trtllm"
    TORCH = "torch"


class Kind(str, Enum):
    """What a value looks like."""

    FLAG = "flag"
    COUNT = "count"
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    PREFIX = "prefix of a path"
    WORD = "one word of a list"
    WORDS = "words of a list, between commas"
    ADDRESS = "host:port"
    TEXT = "text"


@dataclass(frozen=True, slots=True)
class Variable:
    """A row of the table.

    `since`, `until`: the first and last version of the reader that looks at it; None: as far as the table goes, or not
    known. `defaults`: (since, value) oldest first, what holds when it is not set. `newer`: the name that takes its
    place, `newer_since`: from when on that is read. `least`, `most`: sensible numbers. `source`: where the row is from.
    """

    name: str
    reader: Reader
    kind: Kind
    meaning: str
    source: str
    since: Version | None = None
    until: Version | None = None
    defaults: tuple[tuple[Version, str], ...] = ()
    newer: str | None = None
    newer_since: Version | None = None
    words: tuple[str, ...] = ()
    least: int | None = None
    most: int | None = None

    def read_by(self, version: Version) -> bool:
        """Whether that version of its reader looks at it."""
        return (self.since is None or at_least(version, self.since)) and (
            self.until is None or at_most(version, self.until)
        )

    def default(self, version: Version) -> str | None:
        """What holds in that version when nobody sets it; None where that is not known, or nothing."""
        found = None
        for since, value in self.defaults:
            if found is None or at_least(version, since):
                found = value
        return found
