"""A fingerprint as YAML and JSON (schema `rankmuster.fingerprint/1`): the same bytes for the same values, anywhere.

Written here rather than by a library, whose quoting and wrapping change with its version: keys in their order, UTF-8,
no anchors, every text that could be taken for anything else in double quotes, and what fits on a line on one line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rankmuster.evidence.fingerprint_document import to_document
from rankmuster.model.fingerprint import Fingerprint

LINE = 110
"""Characters up to which a list or mapping of single values stands on one line: a matrix row of 8 GPUs."""

_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./()+ -]*[A-Za-z0-9_./()+])?")
_TAKEN_FOR_MORE = frozenset(["true", "false", "yes", "no", "on", "off", "null", "y", "n"])
# what JSON leaves as it is and YAML would fold or refuse: C1, line separators, the byte order mark, non-characters
_UNPRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def as_yaml(fingerprint: Fingerprint) -> str:
    """YAML that `evidence.fingerprint_file.read_fingerprint` reads back to the same values."""
    return "\n".join(_block(to_document(fingerprint), "")) + "\n"


def as_json(fingerprint: Fingerprint) -> str:
    """The same document as JSON."""
    text = json.dumps(to_document(fingerprint), indent=2, ensure_ascii=False, allow_nan=False)
    return _UNPRINTABLE.sub(_escaped, text) + "\n"


def _block(value: Any, indent: str) -> list[str]:
    """The lines of a mapping or list that is not empty."""
    lines: list[str] = []
    mapping = isinstance(value, Mapping)
    for key, one in value.items() if mapping else ((None, one) for one in value):
        head = f"{indent}{_scalar(key)}:" if mapping else f"{indent}-"
        flat = _flat(one)
        if flat is not None and (not isinstance(one, (Mapping, list)) or len(head) + len(flat) < LINE or not one):
            lines.append(f"{head} {flat}")
        elif mapping:
            lines += [head, *_block(one, indent + "  ")]
        else:
            first, *rest = _block(one, indent + "  ")
            lines += [f"{head} {first.lstrip(' ')}", *rest]
    return lines


def _flat(value: Any) -> str | None:
    """On one line; None for what holds lists or mappings of its own."""
    if isinstance(value, Mapping):
        if any(isinstance(one, (Mapping, list)) for one in value.values()):
            return None
        return "{" + ", ".join(f"{_scalar(key)}: {_scalar(one)}" for key, one in value.items()) + "}"
    if isinstance(value, list):
        if any(isinstance(one, (Mapping, list)) for one in value):
            return None
        return "[" + ", ".join(_scalar(one) for one in value) + "]"
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" not in text else text.replace("e", ".0e")  # YAML wants the point
    if isinstance(value, int):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _TAKEN_FOR_MORE and len(value) < LINE:
        return str(value)
    return _UNPRINTABLE.sub(_escaped, json.dumps(value, ensure_ascii=False))


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match.group()):04x}"
