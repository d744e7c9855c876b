"""Objects out of RAS JSON as it comes: concatenated, with NCCL's missing comma, cut off or damaged."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_DEPTH = 64
"""Nesting that is followed; RAS replies have seven levels."""

MAX_DIGITS = 20
"""Digits of an integer that is kept (64 bits have 20); a longer one reads as `BEYOND`, which no bound accepts."""

BEYOND = 1 << 64

# NCCL 2.28.7 and 2.28.9 leave out the comma behind the last number before "status" of a missing rank. Where a value
# ends a line and a key begins the next one, a comma can only be missing.
_MISSING_COMMA = re.compile(r'(?<=[\d"el])([ \t\r]*\n[ \t\r]*)(?="[^"\n]{1,64}"\s{0,8}:)')
_MISSING_COMMA_IN_LINE = re.compile(r'("nvml_dev" ?: ?-?\d{1,10})\s+(?="status")')
_TOKEN = re.compile(
    r'\s*(?:("[^"\\]*(?:\\.[^"\\]*)*")|([{}\[\],:])|(true|false|null|-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?)(?=[\s,}\]]))',
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Found:
    """An object and where it begins, in characters. `value` None: nothing usable. `whole`: it ends as it should."""

    value: dict[str, object] | None
    start: int
    whole: bool


def objects(text: str, first_key: str) -> Iterator[Found]:
    """The objects of `text`, in order.

    `first_key`: the key with which NCCL begins every object of the kind; behind damage, reading goes on there.
    """
    starts = [match.start() for match in re.finditer(r'\{\s{0,64}"' + re.escape(first_key) + r'"\s{0,8}:', text)]
    brace = text.find("{")
    if brace >= 0 and (not starts or brace < starts[0]):
        starts.insert(0, brace)
    for start, end in zip(starts, [*starts, len(text)][1:], strict=True):
        yield from _segment(text[start:end], start)


def _segment(text: str, offset: int) -> Iterator[Found]:
    # Usually one object; several where another program wrote the keys in another order.
    position = 0
    while position >= 0:
        value, end = _decode(text, position)
        if value is None:
            yield _salvage(text[position:], offset + position)
            return
        yield Found(value, offset + position, whole=True)
        position = text.find("{", end)


def _decode(text: str, position: int) -> tuple[dict[str, object] | None, int]:
    try:
        value, end = _decoder().raw_decode(text, position)
    except (ValueError, RecursionError):
        return None, position
    return (value, end) if isinstance(value, dict) else (None, position)


def _salvage(text: str, offset: int) -> Found:
    mended = _MISSING_COMMA.sub(r",\1", text)
    mended = _MISSING_COMMA_IN_LINE.sub(r"\1, ", mended)
    value, _ = _decode(mended, 0)
    if value is not None:
        return Found(value, offset, whole=True)
    value, _ = _decode(_longest_prefix(mended), 0)
    return Found(value, offset, whole=False)


def _longest_prefix(text: str) -> str:
    """The longest beginning of `text` that becomes valid JSON when its open brackets are closed, closed."""
    stack: list[str] = []
    safe, closers = 0, ""
    position = 0
    expected = "value"
    while len(stack) <= MAX_DEPTH:
        match = _TOKEN.match(text, position)
        if match is None:
            break
        position = match.end()
        string, mark, _scalar = match.groups()
        step = _step(expected, mark, string is not None, stack)
        if step is None:
            break
        expected = step
        if expected in ("key_or_end", "value_or_end", "next"):
            safe, closers = position, "".join(reversed(stack))
            if not stack:
                break
    return text[:safe] + closers


def _step(expected: str, mark: str | None, is_string: bool, stack: list[str]) -> str | None:
    """What may follow; None where the token may not stand there."""
    if mark in ("}", "]"):
        if expected not in ("next", "key_or_end", "value_or_end") or not stack or stack[-1] != mark:
            return None
        stack.pop()
        return "next"
    if expected in ("value", "value_or_end"):
        if mark == "{":
            stack.append("}")
            return "key_or_end"
        if mark == "[":
            stack.append("]")
            return "value_or_end"
        return "next" if mark is None else None
    if expected in ("key", "key_or_end"):
        return "colon" if is_string else None
    if expected == "colon":
        return "value" if mark == ":" else None
    if mark != ",":
        return None
    return "key" if stack[-1] == "}" else "value"


def _decoder() -> json.JSONDecoder:
    return json.JSONDecoder(parse_int=_integer)


def _integer(digits: str) -> int:
    # int() raises on more than 4300 digits, and no number of RAS has that many.
    return int(digits) if len(digits) <= MAX_DIGITS else BEYOND
