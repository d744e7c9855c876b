"""A drill's score card as Markdown, for a ticket, a wiki or a pull request. Foreign text is escaped."""

from __future__ import annotations

from rankmuster.model.drill_card import ScoreCard
from rankmuster.report import drill_words as words
from rankmuster.report.incident_markdown import escaped

HELD = {True: "yes", False: "**no**", None: "not measured"}


def render(card: ScoreCard) -> str:
    """The whole document, ending with \\n."""
    parts = [
        f"# Drill: {words.answer(card).word}",
        f"{escaped(words.headline(card))}  \n{escaped(words.machine_words(card))}",
    ]
    if card.reasons:
        parts.append("\n".join(f"- {escaped(reason)}" for reason in card.reasons))
    parts.append(
        _grid(
            ("", "measured", "wanted", "holds"),
            [
                (bar.name, "; ".join(one for one in (bar.value, bar.more) if one), bar.wanted, HELD[bar.held])
                for bar in words.bars(card)
            ],
        )
    )
    faults = [run for run in card.runs if run.kind == "fault"]
    if faults:
        rows = [
            (*map(escaped, words.cells(run)), escaped("; ".join(words.remarks(run)) or words.look_of(run).word))
            for run in faults
        ]
        parts.append("## Faults\n\n" + _grid((*words.HEAD[1:], ""), rows))
    controls = [run for run in card.runs if run.kind == "control"]
    if controls:
        rows = [(escaped(run.name), escaped("; ".join(words.remarks(run)) or words.QUIET)) for run in controls]
        parts.append("## Controls\n\n" + _grid(("control", ""), rows))
    left = [run for run in card.runs if run.kind == "left_out"]
    if left:
        parts.append("## Left out\n\n" + "\n".join(f"- {escaped(run.name)}: {escaped(run.why)}" for run in left))
    return "\n\n".join(parts) + "\n"


def _grid(head: tuple[str, ...], body: list[tuple[str, ...]]) -> str:
    lines = [f"| {' | '.join(name or ' ' for name in head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell or ' ' for cell in row)} |" for row in body]
    return "\n".join(lines)
