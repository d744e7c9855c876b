"""What pairs of nodes say, for a person."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.baseline.pairs_decode import Decoded, NodeStanding
from rankmuster.baseline.pairs_rails import faults

_ORDER = (NodeStanding.BAD, NodeStanding.UNDECIDED, NodeStanding.UNTESTED)
_MOST_GOOD = 16


def as_text(decoded: Mapping[int | None, Decoded]) -> str:
    """Of all rails, the bad first; good nodes in one line."""
    lines: list[str] = []
    for rail, one in decoded.items():
        if rail is not None:
            lines.append(f"rail {rail}:")
        lines += _rail(one, "  " if rail is not None else "")
    for fault in faults(decoded):
        rails = ", ".join(map(str, fault.rails))
        what = (
            "all of its rails: the node, not one NIC" if fault.whole else f"its rail {rails}: that GPU's NIC or cable"
        )
        lines.append(f"{fault.node} is slow on {what}")
    return "\n".join(lines) + "\n"


def _rail(one: Decoded, indent: str) -> list[str]:
    lines = [
        f"{indent}{verdict.standing.value.upper()} {verdict.node}: {verdict.reason}"
        for standing in _ORDER
        for verdict in one.nodes
        if verdict.standing is standing
    ]
    for end in one.ends:
        result = end.result
        lines.append(f"{indent}{result.ended.value.upper()} {result.first} - {result.second}: {end.reason}")
    for path in one.paths:
        word = "BAD PATH" if path.certain else "DOUBTFUL PATH"
        lines.append(f"{indent}{word} {path.first} - {path.second}: {path.reason}")
    good = one.of(NodeStanding.GOOD)
    if good:
        shown = ", ".join(good[:_MOST_GOOD]) + (f" and {len(good) - _MOST_GOOD} more" if len(good) > _MOST_GOOD else "")
        lines.append(f"{indent}good: {shown}")
    if one.open:
        lines.append(f"{indent}UNDECIDED as a whole: {one.open}")
    return lines + [f"{indent}note: {note}" for note in one.notes]
