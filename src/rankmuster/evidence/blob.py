"""A named piece of evidence in memory, and the contract between the bundle and its readers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem


@dataclass(frozen=True, slots=True)
class Blob:
    """`path`: relative to the folder given, with `!` between an archive and its member; `data`: unpacked bytes."""

    path: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader made of a blob.

    `observations`: values of the model, in the blob's order. `problems`: what was damaged, refused or not believed.
    `known`: how many lines (or documents) the reader understood; 0 means the blob was not for it after all.
    """

    observations: tuple[object, ...] = ()
    problems: tuple[Problem, ...] = ()
    known: int = 0


class ReaderKind(str, Enum):
    """A DOCUMENT reader takes a blob for itself. LINES readers share a text: each takes the lines that it knows."""

    DOCUMENT = "document"
    LINES = "lines"


@dataclass(frozen=True, slots=True)
class Reader:
    """One format.

    `recognises(blob)` decides by content and is cheap: it looks at the first few KiB (LINES readers: a substring
    search over the whole). `read(blob)` must not raise on any bytes: what it cannot use becomes a Problem.
    """

    name: str
    plane: Plane
    kind: ReaderKind
    recognises: Callable[[Blob], bool]
    read: Callable[[Blob], Reading]
