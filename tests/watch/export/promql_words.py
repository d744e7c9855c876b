"""What an expression of PromQL asks for: metrics with their matchers, and the labels it groups or joins by."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

_SELECTOR = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)\s*(\{[^}]*\})?")
_MATCHER = re.compile(r'([a-zA-Z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")


@dataclass(frozen=True, slots=True)
class Asked:
    """`metrics`: name -> matchers as (label, operator, value). `grouped`: labels of by, without, on and their like."""

    metrics: dict[str, list[tuple[str, str, str]]] = field(default_factory=dict)
    grouped: frozenset[str] = frozenset()


def asked(expression: str) -> Asked:
    """Of an expression that Prometheus itself accepts: names here are those with our prefix, and recorded ones."""
    grouped = {
        label.strip() for inside in _GROUPING.findall(expression) for label in inside.split(",") if label.strip()
    }
    found: dict[str, list[tuple[str, str, str]]] = {}
    for name, braces in _SELECTOR.findall(_GROUPING.sub(" ", expression)):
        if name.startswith("rankmuster_") or ":" in name or braces or name == "up":
            found.setdefault(name, []).extend(_MATCHER.findall(braces))
    return Asked(found, frozenset(grouped))
