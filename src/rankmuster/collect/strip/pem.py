"""Private keys in PEM: their bodies go, their lines stay, since evidence is referred to by line number."""

from __future__ import annotations

import re

from rankmuster.collect.strip.shapes import MASK

_MARK = b"PRIVATE KEY"
_BEGIN = re.compile(rb"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_END = re.compile(rb"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_BODY = re.compile(rb"[A-Za-z0-9+/=]{20,}|[A-Za-z0-9+/=]+(?=\s*$)")
_LONG = re.compile(rb"[A-Za-z0-9+/=]{20,}")
_PUTTY_MARK = b"Private-Lines: "
_PUTTY = re.compile(rb"(Private-Lines: \d{1,3}\r?\n)((?:[A-Za-z0-9+/=]{4,}\r?\n|[A-Za-z0-9+/=]{4,}\Z){1,400})")
_LINE_OF_KEY = re.compile(rb"[A-Za-z0-9+/=]{4,}")
_INLINE = re.compile(rb"[A-Za-z0-9+/=\\]+")

MAX_LINES = 400
"""Lines of one key: 16,384-bit RSA has 200."""


def scrub_pem(data: bytes) -> bytes:
    """`data` with the bodies of private keys masked, cut ones too. The number of lines stays."""
    if _PUTTY_MARK in data:
        data = _PUTTY.sub(lambda found: found.group(1) + _LINE_OF_KEY.sub(MASK, found.group(2)), data)
    if _MARK not in data:
        return data
    lines = data.split(b"\n")
    at = 0
    while at < len(lines):
        begin = _BEGIN.search(lines[at])
        if begin is None:
            if _END.search(lines[at]) is not None:
                _upwards(lines, at)
            at += 1
            continue
        end = _END.search(lines[at], begin.end())
        if end is not None:  # a key on one line: a variable's value, or JSON with escaped line ends
            lines[at] = _inline(lines[at])
            at += 1
            continue
        lines[at] = lines[at][: begin.end()] + _INLINE.sub(MASK, lines[at][begin.end() :])
        at = _downwards(lines, at + 1)
    return b"\n".join(lines)


def _inline(line: bytes) -> bytes:
    """Every key on a line that holds the ends of all of them."""
    pieces: list[bytes] = []
    at = 0
    for begin in _BEGIN.finditer(line):
        if begin.start() < at:
            continue
        pieces.append(line[at : begin.end()])
        end = _END.search(line, begin.end())
        pieces.append(MASK)
        at = end.start() if end is not None else len(line)
        if end is None:
            break
    return b"".join(pieces) + line[at:]


def _downwards(lines: list[bytes], at: int) -> int:
    """Masks up to the end mark, or where it is missing up to the first line that is no part of a key."""
    last = min(at + MAX_LINES, len(lines))
    mark = next((n for n in range(at, last) if _MARK in lines[n]), None)  # another key may begin before this one ends
    end = mark if mark is not None and _END.search(lines[mark]) else None
    for n in range(at, last if end is None else end):
        if end is None and not _LONG.search(lines[n]) and lines[n].strip() != MASK:
            return n
        lines[n] = _BODY.sub(MASK, lines[n])
    return last if end is None else end + 1


def _upwards(lines: list[bytes], end: int) -> None:
    """Masks the lines before an end mark whose beginning was cut off; the last of them may be short."""
    for n in range(end - 1, max(end - MAX_LINES, -1), -1):
        if not _LONG.search(lines[n]) and n != end - 1:
            return
        lines[n] = _BODY.sub(MASK, lines[n])
