"""The folder of a drill's engine, which outlives its incarnations: each has a folder of its own within.

`incarnations/0002/`: as of a drill's job, with `incarnation.json` (who it is) and `front.jsonl` (what its front end
received and gave, see `engine_record`). `current`: a link to the newest. `fault.json`: what is to be wrong, and with
which incarnation; the next ones are well.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

INCARNATIONS, CURRENT, FAULT, ABOUT, RECORD = (
    "incarnations",
    "current",
    "fault.json",
    "incarnation.json",
    "front.jsonl",
)


@dataclass(frozen=True, slots=True)
class FaultOrder:
    """`fault`: its name. It is made by rank `culprit` of incarnation `incarnation`, when the word is given."""

    fault: str
    culprit: int
    incarnation: int = 1


@dataclass(frozen=True, slots=True)
class Incarnation:
    """`number`: from 1. `pid`: of its launcher, `started_at`: when that process began, unix seconds. `ranks`: pid of
    each rank, in order. `name`: what its supervisor calls this incarnation."""

    number: int
    instance: str
    pid: int
    started_at: float
    ranks: tuple[int, ...] = ()
    front: int | None = None
    port: int = 0
    name: str | None = None


class EngineFolder:
    """Made where it is not there. Raises OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / INCARNATIONS).mkdir(parents=True, exist_ok=True)

    @property
    def numbers(self) -> tuple[int, ...]:
        """Of the incarnations so far, in order."""
        return tuple(sorted(int(one.name) for one in (self.path / INCARNATIONS).iterdir() if one.name.isdigit()))

    def of(self, number: int) -> Path:
        """The folder of an incarnation."""
        return self.path / INCARNATIONS / f"{number:04d}"

    def new(self) -> tuple[int, Path]:
        """The next incarnation's number and folder, made; `current` leads there from now on."""
        number = max(self.numbers, default=0) + 1
        folder = self.of(number)
        folder.mkdir()
        link = self.path / f".{CURRENT}.{os.getpid()}"
        link.symlink_to(Path(INCARNATIONS) / folder.name)
        link.replace(self.path / CURRENT)
        return number, folder

    def order(self, order: FaultOrder) -> None:
        """What is to be wrong; before that incarnation begins."""
        _write(self.path / FAULT, asdict(order))

    def ordered(self, number: int) -> FaultOrder | None:
        """What is to be wrong with an incarnation. Raises ValueError, TypeError or OSError when that cannot be read."""
        path = self.path / FAULT
        if not path.exists():
            return None
        order = FaultOrder(**json.loads(path.read_text()))
        return order if order.incarnation == number else None

    def tell(self, about: Incarnation) -> None:
        """Who the incarnation is, for those outside."""
        _write(self.of(about.number) / ABOUT, asdict(about))

    def about(self, number: int) -> Incarnation | None:
        """None where it has not said who it is yet."""
        try:
            plain: dict[str, Any] = json.loads((self.of(number) / ABOUT).read_text())
        except FileNotFoundError:
            return None
        return Incarnation(**{**plain, "ranks": tuple(plain["ranks"])})


def _write(path: Path, plain: Mapping[str, Any]) -> None:
    """Whole or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}")
    part.write_text(json.dumps(plain, sort_keys=True) + "\n")
    part.replace(path)
