"""JSON from failing machines: cut, with a flipped byte, with numbers or nesting meant to hurt."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from rankmuster.evidence import text

MAX_DIGITS = 19
"""Digits of an integer that is kept exact (64 bits); longer ones become floats, whose conversion never raises."""

_WINDOW = 4096
"""Bytes in which an object of our own says its schema, which comes first in it."""

_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|["{}\[\],]', re.DOTALL)
_CLOSER = {"{": "}", "[": "]"}


@dataclass(frozen=True, slots=True)
class Parsed:
    """`value`: the document, its sound beginning, or None. `damage`: what is wrong with it, None when it is whole."""

    value: object
    damage: str | None


def begins(data: bytes, schema: re.Pattern[bytes]) -> bool:
    """Whether it looks like a JSON object of this schema."""
    head = data[:_WINDOW]
    return head.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{" and schema.search(head) is not None


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


def _loads(document: str) -> object:
    # NaN and Infinity are no JSON, but Python writes them: they stand for "no value".
    return json.loads(document, parse_int=_integer, parse_constant=lambda _: None)


def parse(data: bytes, depth: int = 2) -> Parsed:
    """The document; if it is damaged, what stands before the damage.

    `depth`: containers nested deeper than this are kept whole or not at all, so that a half-written record
    is not mistaken for one with missing fields.
    """
    document = text.clean(data.decode("utf-8", errors="replace")).lstrip("\ufeff")
    try:
        return Parsed(_loads(document), None)
    except RecursionError:
        return Parsed(None, "nested too deeply")
    except json.JSONDecodeError as error:
        damage = f"line {error.lineno}: {error.msg}"
        if error.msg == "Extra data":
            sound = document[: error.pos]
        else:
            sound = _closed(document[: error.pos], depth)
    try:
        return Parsed(_loads(sound), damage)
    except (ValueError, RecursionError):
        return Parsed(None, damage)


def _closed(beginning: str, depth: int) -> str:
    """The longest prefix that ends behind a whole element at most `depth` deep, with its containers closed."""
    stack: list[str] = []
    end, closers = 0, ""
    for token in _STRUCTURE.finditer(beginning):
        mark = token.group()
        if mark == '"':
            break
        if mark in _CLOSER:
            stack.append(_CLOSER[mark])
            if len(stack) <= depth:
                end, closers = token.end(), "".join(reversed(stack))
        elif mark in ("}", "]"):
            if not stack or stack.pop() != mark:
                break
            if len(stack) <= depth:
                end, closers = token.end(), "".join(reversed(stack))
        elif mark == "," and len(stack) <= depth:
            end, closers = token.start(), "".join(reversed(stack))
    return beginning[:end] + closers
