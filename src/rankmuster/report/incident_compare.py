"""Two decisions about one incident beside each other: what was done then, and what would be done now."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rankmuster.model.incident import SCHEMA, Decision
from rankmuster.model.plain_json import to_plain
from rankmuster.model.verdict import Verdict
from rankmuster.report.incident_account import BOUNDS
from rankmuster.report.incident_words import COURSES
from rankmuster.report.inert import plain
from rankmuster.report.words import accused, class_name

REASONS = ("why", "held")
"""Fields that are sentences: they may differ where the same is done."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One field: as it was decided `then`, and `now`."""

    field: str
    then: str
    now: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """`journaled`: None where there is nothing to compare with. `reasons`: differences that are words only."""

    decision: Decision
    journaled: Decision | None
    verdict: Verdict | None
    incident: str | None
    differences: tuple[Difference, ...]
    reasons: tuple[Difference, ...]

    @property
    def same(self) -> bool:
        """Whether the same would be done."""
        return self.journaled is not None and not self.differences


def comparison(
    decision: Decision, journaled: Decision | None, verdict: Verdict | None, incident: str | None
) -> Comparison:
    """Field by field. Nothing is held in the one and held in the other: that is a difference in what is done."""
    found: list[Difference] = []
    if journaled is not None:
        now, then = to_plain(decision, BOUNDS), to_plain(journaled, BOUNDS)
        found = [Difference(key, _said(then[key]), _said(now[key])) for key in now if now[key] != then[key]]
    held = journaled is not None and (decision.held is None) != (journaled.held is None)
    words = tuple(one for one in found if one.field in REASONS and not (one.field == "held" and held))
    acts = tuple(one for one in found if one not in words)
    return Comparison(decision, journaled, verdict, incident, acts, words)


def comparison_text(compared: Comparison, notes: Sequence[str] = ()) -> str:
    """The answer first; then `notes`, on what it rests."""
    decision = compared.decision
    lines = []
    if compared.journaled is None:
        lines.append("DECIDED, and there is no decision to compare with")
    elif compared.same:
        lines.append(f"THE SAME is decided again about incident {plain(compared.incident or '', 100)}")
    else:
        lines.append(f"SOMETHING ELSE is decided now about incident {plain(compared.incident or '', 100)}:")
        lines += [f"  {one.field}: then {one.then}; now {one.now}" for one in compared.differences]
    lines += [f"but {plain(note, 600)}" for note in notes]
    verdict = compared.verdict
    if verdict is not None:
        sure = f" ({verdict.confidence.value})" if verdict.confidence else ""
        lines.append(f"verdict: {class_name(verdict)}{sure}, {plain(accused(verdict))}")
    else:
        lines.append("verdict: none; there was no evidence to diagnose")
    lines.append(
        f"now: {COURSES[decision.course]}; boundary {decision.boundary.value}, by the table {decision.table.value}"
    )
    if decision.held:
        lines.append(f"held: {plain(decision.held)}")
    lines += [f"  since {plain(line)}" for line in decision.why]
    if compared.reasons:
        lines.append("other words than then, the same done:")
        lines += [f"  {one.field}: then {one.then}" for one in compared.reasons]
    return "\n".join(lines) + "\n"


def comparison_json(compared: Comparison, notes: Sequence[str] = ()) -> str:
    """The same for programs."""
    document: dict[str, Any] = {
        "schema": SCHEMA,
        "id": compared.incident,
        "same": compared.same if compared.journaled is not None else None,
        "decision": to_plain(compared.decision, BOUNDS),
        "journaled": to_plain(compared.journaled, BOUNDS) if compared.journaled is not None else None,
        "differences": [one.field for one in compared.differences],
        "reasons_differ": bool(compared.reasons),
        "notes": [plain(note, 600) for note in notes],
    }
    return json.dumps(document, indent=1) + "\n"


def _said(value: Any) -> str:
    if isinstance(value, list):
        return plain(", ".join(str(one) for one in value)) or "none"
    return "none" if value is None else plain(str(value))
