"""Text as failing machines leave it: ANSI colours, NUL bytes, broken UTF-8, lines without end."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_LINE = 16_384
"""Characters of one line that are looked at; NCCL and torch lines are far shorter, a cut line is still a line."""

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_ENDS = re.compile(r"\r\n|\n|\r")
_END_BYTES = re.compile(rb"[\r\n]")
_TEXT_CONTROL = bytes(b for b in range(32) if b not in (7, 8, 9, 10, 12, 13, 27))


def is_text(data: bytes, window: int = 4096) -> bool:
    """Whether the first `window` bytes look like text: few control bytes, NULs only where a file has a hole."""
    head = data[:window].lstrip(b"\0")
    if not head:
        return False
    strange = len(head) - len(head.translate(None, _TEXT_CONTROL))
    return strange <= len(head) // 50


def clean(text: str) -> str:
    """Without ANSI sequences and NULs."""
    if "\x1b" in text:
        text = _ANSI.sub("", text)
    return text.replace("\0", "")


def lines(data: bytes) -> Iterator[tuple[int, str]]:
    """(line number from 1, line without its end), cleaned and cut at `MAX_LINE`; carriage returns end lines too."""
    for number, raw in enumerate(_ENDS.split(data.decode("utf-8", errors="replace")), start=1):
        line = raw if len(raw) <= MAX_LINE else raw[:MAX_LINE]
        yield number, clean(line)


def seen(data: bytes) -> bytes:
    """What `lines` can show of it: of one line without end (a JSON document of 100 MB) the beginning, so that a hundred
    words are not sought in the rest."""
    most = 4 * MAX_LINE  # bytes of a character
    if len(data) <= most or _END_BYTES.search(data, 0, most) or b"\n" in data or b"\r" in data:
        return data
    return data[:most]


def head(data: bytes, size: int = 8192) -> str:
    """The first `size` bytes as cleaned text, for recognisers."""
    return clean(data[:size].decode("utf-8", errors="replace"))
