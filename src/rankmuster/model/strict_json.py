"""JSON of a sealed document, read so that every reader of it takes the same from it."""

from __future__ import annotations

import json
from typing import Any


class NotStrict(Exception):
    """The bytes are no whole JSON object; the message says what is wrong."""


class KeyTwice(NotStrict):
    """An object has a key twice: readers would differ in which one they take, and no sealed document is written so."""


def strict_object(data: bytes | str, most_bytes: int) -> dict[str, Any]:
    """The object in `data`. Raises NotStrict, KeyTwice. `most_bytes`: of what may be read at all."""
    if len(data) > most_bytes:
        raise NotStrict(f"it has more than {most_bytes >> 20} MiB, which no record has")
    try:
        document = json.loads(data, object_pairs_hook=_once, parse_constant=_no_number)
    except _Twice as error:
        raise KeyTwice(f"the key {str(error)!r} stands in it twice: no record is written so") from None
    except (ValueError, RecursionError) as error:
        raise NotStrict(f"it is no whole JSON ({str(error)[:200]}); copy it again") from None
    if not isinstance(document, dict):
        raise NotStrict("it is JSON, and no object")
    return document


class _Twice(ValueError):
    """Stops the parser, which takes a ValueError alone for a fault of the text."""


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        raise _Twice(next(key for key, _ in pairs if key in seen or seen.add(key)))  # type: ignore[func-returns-value]
    return found


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")
