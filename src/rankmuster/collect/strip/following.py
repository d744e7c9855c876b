"""Secrets that stand on the lines after their names: YAML's blocks, lists and name/value pairs, TOML's long texts.

Pod specifications, chart values and configurations are printed so at a start. Only the shapes below are followed: a log
line that merely ends with such a word is none of them.
"""

from __future__ import annotations

import re

from rankmuster.collect.strip import line_spans
from rankmuster.collect.strip.key_names import CORE, NEEDLES
from rankmuster.collect.strip.shapes import MASK

MAX_LINES = 100
"""Lines of one value: a certificate with its key has as many."""

_ENDING_BYTES = 40
_ENDING = re.compile(rb"(?::|[|>][-+]?\d?|\"{3}.{0,30}|'{3}.{0,30}|[\w-]{3}[\"']?,?)\s{0,4}\Z")
"""How a line ends whose value comes on the next: most lines do not, so that they cost little."""
_BLOCK = re.compile(CORE + rb"\\*[\"']?\s{0,4}:\s{1,4}[|>][-+]?\d?\s{0,4}$")
_LIST = re.compile(CORE + rb"\\*[\"']?\s{0,4}:\s{0,4}$")
_LONG = re.compile(CORE + rb"\\*[\"']?\s{0,4}[:=]\s{0,4}(\"{3}|'{3})(?:(?!\1).)*$")
_ENTRY = re.compile(
    rb"name\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?[\w.-]{0,60}?" + CORE + rb"[\w.-]{0,24}\\*[\"']?,?\s{0,4}$"
)
_OPTION = re.compile(rb"^\s{0,80}(?:-\s{1,4})?[\"']?--?[\w-]{0,40}?" + CORE + rb"[\"']?,?\s{0,4}$")
_VALUE = re.compile(rb"(\s{0,80}\\*[\"']?value\\*[\"']?\s{0,4}[:=]\s{0,4}\\*[\"']?)([^\"'\\\r\n]+)", re.IGNORECASE)
_ITEM = re.compile(rb"(\s{0,80}-\s{1,8}[\"']?)([^\"'\r\n]+)")
_WORD = re.compile(rb"(\s{0,80}(?:-\s{1,8})?[\"']?)([^\s\"'\-][^\"'\r\n]*)")
_INDENT = re.compile(rb"\s*(?:-\s+)?")
_REFERENCE = re.compile(rb"[|>][-+]?\d?\s*$|\*{3}")
"""A value that is none, or that is masked already."""


def scrub_following(data: bytes) -> bytes:
    """`data` with such values masked; the number of lines stays."""
    lowered = data.lower()
    pieces: list[bytes] = []
    at = 0
    for start, end in line_spans.with_any(lowered, NEEDLES):
        if start < at or not _ENDING.search(lowered, max(start, end - _ENDING_BYTES), end):
            continue
        more, after = _after(data, lowered[start:end], end)
        if more:
            pieces += (data[at:end], more)
            at = after
    return b"".join(pieces) + data[at:] if pieces else data


def _after(data: bytes, line: bytes, end: int) -> tuple[bytes, int]:
    """(the masked lines that follow `line`, each with the line end before it; where they end)."""
    if _BLOCK.search(line):
        return _block(data, end, len(_INDENT.match(line).group()))  # type: ignore[union-attr]
    long = _LONG.search(line)
    if long is not None:
        return _long(data, end, long.group(1))
    if _LIST.search(line):
        return _each(data, end, _ITEM, MAX_LINES)
    if _ENTRY.search(line):
        return _each(data, end, _VALUE, 1)
    if _OPTION.search(line):
        return _each(data, end, _WORD, 1)
    return b"", end


def _lines(data: bytes, at: int) -> list[tuple[int, int]]:
    """(start, end) of the lines behind the line end at `at`."""
    found: list[tuple[int, int]] = []
    while at < len(data) and len(found) < MAX_LINES:
        end = data.find(b"\n", at + 1)
        end = len(data) if end < 0 else end
        found.append((at + 1, end))
        at = end
    return found


def _block(data: bytes, at: int, indent: int) -> tuple[bytes, int]:
    """Everything that is further in."""
    pieces: list[bytes] = []
    for start, end in _lines(data, at):
        line = data[start:end]
        text = line.lstrip(b" \t")
        if text.strip() and len(line) - len(text) <= indent:
            break
        pieces.append(b"\n" + line[: len(line) - len(text)] + _masked(text))
        at = end
    return b"".join(pieces), at


def _long(data: bytes, at: int, quote: bytes) -> tuple[bytes, int]:
    """Everything up to the three quotes; nothing where they do not come."""
    pieces: list[bytes] = []
    for start, end in _lines(data, at):
        line = data[start:end]
        closing = line.find(quote)
        if closing >= 0:
            pieces.append(b"\n" + _masked(line[:closing]) + line[closing:])
            return b"".join(pieces), end
        pieces.append(b"\n" + _masked(line))
    return b"", at


def _each(data: bytes, at: int, form: re.Pattern[bytes], most: int) -> tuple[bytes, int]:
    """Lines of this form, as long as they come."""
    pieces: list[bytes] = []
    for start, end in _lines(data, at)[:most]:
        line = data[start:end]
        match = form.match(line)
        if match is None or _REFERENCE.match(match.group(2)):
            break
        pieces.append(b"\n" + match.group(1) + _masked(match.group(2)) + line[match.end() :])
        at = end
    return b"".join(pieces), at


def _masked(text: bytes) -> bytes:
    return MASK + (b"\r" if text.endswith(b"\r") else b"") if text.strip() else text
