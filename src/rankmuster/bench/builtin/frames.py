"""What ranks say to their parent: JSON in marked lines that survive a launcher.

mpirun, srun and torchrun forward the output of all ranks on one stream, put prefixes before lines, mix in what
libraries print, and may break long lines between two ranks' pieces. So each message goes out in short lines that carry
the rank, the message's number and the piece's place, and what other lines there are is left alone.
"""

from __future__ import annotations

import json
import os
import re
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

MARK = "@rankmuster-bench"

PIECE = 600
"""Characters of JSON in a line: Slurm forwards at most 1024 bytes in one piece (STDIO_MAX_MSG_LEN)."""

MOST_PIECES = 20_000  # 12 MB of one message; a rank's log lines are the largest, and bounded
MOST_LINE = 4_096  # bytes; ours have 700, the rest of a longer line cannot be ours
MOST_UNFINISHED = 4_096  # messages of which pieces are missing, over all ranks

_LINE = re.compile(re.escape(MARK) + r" (\d{1,7}) (\d{1,9}) (\d{1,6})/(\d{1,6}) (.*?)\s*$")


class Speaker:
    """A rank's end. Whole lines are written at once; any thread may speak."""

    def __init__(self, fd: int, rank: int) -> None:
        self._fd, self._rank = fd, rank
        self._number = 0
        self._lock = threading.Lock()

    def say(self, kind: str, **values: Any) -> None:
        """Raises OSError where nobody can be told."""
        text = json.dumps({"kind": kind, **values}, separators=(",", ":"))
        with self._lock:
            for line in lines_of(self._rank, self._number, text):
                data = line.encode()
                while data:
                    data = data[os.write(self._fd, data) :]
            self._number += 1


def lines_of(rank: int, number: int, text: str) -> Iterator[str]:
    """The lines of one message; `text` is JSON in ASCII."""
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)] or [""]
    for place, piece in enumerate(pieces):
        # A blank at either end would be lost to a launcher that trims: the bars keep it.
        yield f"{MARK} {rank} {number} {place}/{len(pieces)} |{piece}|\n"


@dataclass(frozen=True, slots=True)
class Message:
    """`values`: what the rank said, with its `kind`."""

    rank: int
    number: int
    kind: str
    values: dict[str, Any]


@dataclass
class Listener:
    """Puts the lines of any number of ranks together again. `others`: the last lines that were not ours, for errors."""

    others: list[str] = field(default_factory=list)
    damaged: int = 0
    _rest: bytes = b""
    _pieces: dict[tuple[int, int], dict[int, str]] = field(default_factory=dict)

    def feed(self, data: bytes, *, ended: bool = False) -> list[Message]:
        """The messages that became whole by `data`. `ended`: nothing will follow, a last line needs no end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if ended:
            lines.append(self._rest)
            self._rest = b""
        elif len(self._rest) > MOST_LINE and MARK.encode() not in self._rest:
            self._rest = self._rest[-MOST_LINE:]
        found: list[Message] = []
        for line in lines:
            message = self._line(line.decode("utf-8", "replace"))
            if message is not None:
                found.append(message)
        return found

    @property
    def unfinished(self) -> int:
        """Messages of which pieces are missing."""
        return len(self._pieces)

    def _line(self, line: str) -> Message | None:
        match = _LINE.search(line)
        if match is None:
            if line.strip():
                self.others.append(line.rstrip()[:1000])
                del self.others[:-200]
            return None
        rank, number, place, count = (int(text) for text in match.groups()[:4])
        piece = match[5]
        if not (piece.startswith("|") and piece.endswith("|") and len(piece) > 1 and place < count <= MOST_PIECES):
            self.damaged += 1
            return None
        if len(self._pieces) > MOST_UNFINISHED:
            self._pieces.pop(next(iter(self._pieces)))
        parts = self._pieces.setdefault((rank, number), {})
        parts[place] = piece[1:-1]
        if len(parts) < count:
            return None
        del self._pieces[rank, number]
        try:
            values = json.loads("".join(parts[at] for at in range(count)))
            kind = values.pop("kind")
        except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
            self.damaged += 1
            return None
        return Message(rank, number, str(kind), values)
