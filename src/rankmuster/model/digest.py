"""sha256 over canonical JSON: keys sorted, UTF-8, whole numbers written as such, nothing that a locale could change."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(value: Any) -> str:
    """`sha256:` and 64 hex digits. `value`: plain values of JSON, numbers finite. Raises ValueError, TypeError."""
    text = json.dumps(_whole(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return f"sha256:{hashlib.sha256(text.encode('utf-8', 'backslashreplace')).hexdigest()}"


def _whole(value: Any) -> Any:
    """400.0 and 400 are one rate, whichever the reader made of it."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(one) for one in value]
    return value
