"""Where a value in free text ends: quoted as Python, JSON or a shell write it, in brackets, or bare."""

from __future__ import annotations

import re
from dataclasses import dataclass

_OPEN = re.compile(rb"(?:[bBrRuUfF]{0,2})(\\{0,7})([\"'])")
# A run of backslashes is tried from its beginning only: a search from each of them would take quadratic time.
_QUOTE = {b'"': re.compile(rb'(?<!\\)(\\*)"'), b"'": re.compile(rb"(?<!\\)(\\*)'")}
_CLOSERS = {b"[": b"]", b"(": b")", b"{": b"}"}
_STRUCTURE = re.compile(rb"(?<!\\)(\\*)[\"']|[\[\](){}]")
_WRAPPER = re.compile(rb"(?:SecretStr|tensor|array|Some|list|tuple|str|bytes)(?=\()")


@dataclass(frozen=True, slots=True)
class Value:
    """`start`, `end`: what is between the delimiters; `after`: where the text goes on; `closed`: whether the closing
    delimiter stands on the line; `quote`: the delimiter of a quoted value, else empty."""

    start: int
    end: int
    after: int
    closed: bool = True
    quote: bytes = b""


def quoted(line: bytes, at: int) -> Value | None:
    """The quoted value that begins at `at`, None when none does. One that is not closed runs to the line's end."""
    opening = _OPEN.match(line, at)
    if opening is None:
        return None
    slashes, quote = len(opening.group(1)), opening.group(2)
    if not slashes and line.startswith(quote * 3, opening.start(2)):  # Python's and TOML's texts of several lines
        begin = opening.start(2) + 3
        end = line.find(quote * 3, begin)
        closed = end >= 0
        return Value(begin, end if closed else len(line), end + 3 if closed else len(line), closed, quote * 3)
    closing = closing_quote(line, opening.end(), slashes, quote)
    delimiter = opening.group(1) + quote
    if closing is None:
        return Value(opening.end(), len(line), len(line), False, delimiter)
    return Value(opening.end(), closing[0], closing[1], True, delimiter)


def closing_quote(line: bytes, at: int, slashes: int, quote: bytes) -> tuple[int, int] | None:
    """(start, end) of the delimiter that closes a value opened by `slashes` backslashes and `quote`.

    JSON within JSON escapes its quotes: there a quote with exactly as many backslashes closes, not one with more.
    """
    for match in _QUOTE[quote].finditer(line, at):
        count = len(match.group(1))
        if count == slashes if slashes else count % 2 == 0:
            return match.end() - 1 - slashes, match.end()
    return None


def bracketed(line: bytes, at: int) -> Value | None:
    """The value in brackets that begins at `at` (`[...]`, `tensor(...)`), with everything nested in it."""
    wrapper = _WRAPPER.match(line, at)
    at = wrapper.end() if wrapper else at
    if line[at : at + 1] not in _CLOSERS:
        return None
    depth = 0
    position = at
    while (match := _STRUCTURE.search(line, position)) is not None:
        mark = match.group()[-1:]
        if mark in (b'"', b"'"):
            closing = closing_quote(line, match.end(), len(match.group(1)), mark)
            if closing is None:
                break
            position = closing[1]
            continue
        depth += 1 if mark in _CLOSERS else -1
        position = match.end()
        if depth == 0:
            return Value(at + 1, match.start(), match.end())
    return Value(at + 1, len(line), len(line), False)
