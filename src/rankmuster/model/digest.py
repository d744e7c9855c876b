"""sha256 over canonical JSON: keys sorted, no blanks, nothing that a locale could change."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """`sha256:` and 64 hex digits over UTF-8 in which 400.0 is 400: the same whichever reader made the numbers.

    `value`: plain values of JSON, numbers finite. Raises ValueError, TypeError.
    """
    text = json.dumps(_whole(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _sha256(text.encode("utf-8", "backslashreplace"))


def ascii_digest(value: Any) -> str:
    """The same over ASCII and numbers as they are: what any JSON library makes with sorted keys and no blanks, so that
    others can check a document without this program.

    `value`: plain values of JSON, numbers finite. Raises ValueError, TypeError.
    """
    return _sha256(json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii"))


def _sha256(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _whole(value: Any) -> Any:
    """400.0 and 400 are one rate, whichever the reader made of it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in value]
    return value
