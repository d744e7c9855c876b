"""All that ranks have said so far, whichever way it came."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from rankmuster.bench.builtin.frames import Message

Plain = dict[str, Any]


@dataclass
class RankHeard:
    """`cell`, `doing`: where it last said to be; -1 is before the first cell. `host`: None until it has started."""

    host: str | None = None
    pid: int | None = None
    torch: str | None = None
    device: Plain = field(default_factory=dict)
    probe: Plain = field(default_factory=dict)
    cell: int = -1
    step: int = 0  # how many times it said where it is: ranks say so in the same order
    doing: str = "starting"
    failed: str | None = None
    done: bool = False
    lines: list[str] = field(default_factory=list)


@dataclass
class Heard:
    """`cells`: names of what is measured, None until rank 0 said. `failures`: ranks in the order they failed in."""

    ranks: dict[int, RankHeard] = field(default_factory=dict)
    cells: list[str] | None = None
    left_out: list[str] = field(default_factory=list)
    rows: list[Plain] = field(default_factory=list)
    failures: list[int] = field(default_factory=list)
    expected: int | None = None
    launcher: str | None = None
    started_at: float | None = None  # unix seconds, of the first rank by its own host's clock

    def take(self, messages: Iterable[Message]) -> None:
        """What has the wrong form is passed over: it costs itself, and is missed in the end."""
        for message in messages:
            try:
                self._one(message)
            except (KeyError, TypeError, ValueError):
                continue

    def _one(self, message: Message) -> None:
        rank, values = self.ranks.setdefault(message.rank, RankHeard()), message.values
        if message.kind == "started":
            rank.host, rank.pid = str(values["host"]), int(values["pid"])
            self.expected = self.expected or int(values["ranks"])
            self.launcher = str(values["launcher"])
            began = float(values["time"])
            self.started_at = began if self.started_at is None else min(began, self.started_at)
        elif message.kind == "torch":
            rank.torch = str(values["version"])
            rank.doing = "starting torch's backend"
        elif message.kind == "at":
            rank.cell, rank.doing = int(values["cell"]), str(values["doing"])
            rank.step += 1
        elif message.kind == "device":
            rank.device = values
        elif message.kind == "probe":
            rank.probe = values
        elif message.kind == "plan":
            self.cells = [str(name) for name in values["cells"]]
            self.left_out = [str(text) for text in values["left_out"]]
        elif message.kind == "row":
            self.rows.append(values)
        elif message.kind == "log":
            rank.lines = [str(line) for line in values["lines"]]
        elif message.kind == "failed":
            rank.failed = f"{values['error']}" + (f" (at {values['at']})" if values.get("at") else "")
            self.failures.append(message.rank)
        elif message.kind == "done":
            rank.done = True

    def place(self, rank: RankHeard) -> str:
        """Where a rank stands, in words."""
        if rank.host is None:
            return "has not started"
        if 0 <= rank.cell < len(self.cells or ()):
            return f"{rank.doing} of {(self.cells or [])[rank.cell]}"
        return rank.doing
