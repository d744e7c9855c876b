"""The section of docs/measured.md on drills of the whole chain: from the score cards that are kept beside it."""

from __future__ import annotations

from pathlib import Path

from rankmuster.model.drill_card import read
from rankmuster.report.drill_markdown import render

HEADING = "## Drills of the whole chain"
CARDS = "drill-*.json"


def section(folder: Path) -> str:
    """Empty where no card is kept."""
    cards = [read(path.read_bytes()) for path in sorted(folder.glob(CARDS))]
    if not cards:
        return ""
    lines = [
        HEADING,
        "",
        "Each card as `rankmuster drill report --format md` writes it: faults made on purpose in a served instance, "
        "with the verdict, the evidence and the way back of each, and the controls in which nobody may act. What could "
        "not be made on that machine stands under `Left out`.",
        "",
    ]
    for card in cards:
        lines += [f"##{line}" if line.startswith("#") else line for line in render(card).splitlines()]
        lines.append("")
    return "\n".join(lines).rstrip() + "\n"
