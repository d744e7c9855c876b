"""The timeline as a picture: each step a bar, the time that it may take as a frame around it, on one axis."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.incident import EventKind
from rankmuster.report.incident_account import Account, Stage
from rankmuster.report.incident_impact import impact
from rankmuster.report.incident_words import ENDINGS, length, look_of, took_words
from rankmuster.report.page import Markup, text
from rankmuster.report.svg import LEFT, RIGHT, WIDTH, Axis, bar, label, svg
from rankmuster.report.words import span

ROW = 22
"""Height of one step's row, with its gap."""

HEAD = 16
"""Room above the rows for the names of what happened between steps."""

MOST_STAGES = 60
"""Rows of one picture: steps that were gone through again after a resume have rows of their own."""

LEGEND = (
    ('<rect class="b-healthy" x="1" y="1" width="20" height="8"/>', "done"),
    ('<rect class="b-suspect" x="1" y="1" width="20" height="8"/>', "partial or refused"),
    ('<rect class="b-culprit" x="1" y="1" width="20" height="8"/>', "failed or timed out"),
    ('<rect class="b-victim" x="1" y="1" width="20" height="8"/>', "observed only"),
    ('<rect class="b-unsure" x="1" y="1" width="20" height="8"/>', "running or unknown"),
    ('<rect class="limit" x="1" y="1" width="20" height="8"/>', "what it may take"),
)


def figures(incident: Account, now: float) -> tuple[tuple[str, Markup], ...]:
    """(caption, picture): until traffic is back, and what comes after it, where nobody waits any more."""
    told = impact(incident)
    drawn = [stage for stage in incident.stages if stage.begun_at is not None][:MOST_STAGES]
    if not drawn:
        return ()
    served = told.served_at
    before = [stage for stage in drawn if served is None or (stage.begun_at or 0.0) < served]
    after = [stage for stage in drawn if stage not in before]
    start = min(told.counted_from, incident.opened_at)
    made = (
        [
            (
                "From its detection on" if told.fault_at is None else "From the fault on",
                _picture(incident, before, start, now, "figure-steps"),
            )
        ]
        if before
        else []
    )
    if after and served is not None:
        made.append(("After traffic was back", _picture(incident, after, served, now, "figure-after")))
    return tuple(made)


def legend() -> Markup:
    """What the bars mean."""
    signs = "".join(f'<li><svg viewBox="0 0 22 10" aria-hidden="true">{sign}</svg>{text(w)}</li>' for sign, w in LEGEND)
    return Markup(f'<ul class="legend">{signs}</ul>')


def _picture(incident: Account, stages: Sequence[Stage], start: float, now: float, key: str) -> Markup:
    ends = [stage.ended_at if stage.ended_at is not None else now for stage in stages]
    end = max([*ends, start + 1.0])
    fault = impact(incident).fault_at
    axis = Axis(start, end + 0.03 * (end - start), start, fault if fault == start else None)
    height = HEAD + ROW * len(stages)
    parts: list[str] = []
    for place, stage in enumerate(stages):
        parts += _row(stage, HEAD + place * ROW, axis, now)
    parts += axis.draw(height, HEAD)
    parts += _marks(incident, axis, height)
    words = "; ".join(
        f"{stage.step.value} {look_of(stage).word}, {took_words(stage, now)}, from "
        f"{span(max(0.0, (stage.begun_at or start) - start))} on"
        for stage in stages
    )
    return svg(height + 36, "Steps against what they may take", words, parts, key)


def _row(stage: Stage, top: float, axis: Axis, now: float) -> list[str]:
    begun = stage.begun_at if stage.begun_at is not None else axis.start
    ended = stage.ended_at if stage.ended_at is not None else now
    look = look_of(stage)
    took = took_words(stage, now)
    hover = f"{stage.step.value}: {look.word}, {took}"
    parts = [
        f'<rect class="row" x="{LEFT}" y="{top + 1:.1f}" width="{WIDTH - LEFT - RIGHT}" height="{ROW - 2}"/>',
        label(LEFT - 8, top + 14, f"{look.sign} {stage.step.value}", "name", "end"),
        bar(axis.x(begun), axis.x(ended), top + 5, ROW - 10, f"b-{look.tone}", hover),
    ]
    if stage.deadline_at is not None and stage.deadline_at > begun:
        x1, x2 = axis.x(begun), axis.x(stage.deadline_at)
        parts.append(
            f'<rect class="limit" x="{x1:.1f}" y="{top + 3:.1f}" width="{max(x2 - x1, 1.0):.1f}" height="{ROW - 6}"/>'
        )
        if not axis.holds(stage.deadline_at):
            parts.append(label(x2 - 4, top + 14, f"of {length(stage.deadline_at - begun)}", "", "end"))
    value = span(max(0.0, ended - begun)) if stage.ended_at is not None else f"{span(max(0.0, ended - begun))} ..."
    late = stage.late is not None and stage.late > 1
    parts.append(label(WIDTH - RIGHT + 8, top + 14, value, "t-culprit strong" if late else ""))
    return parts


def _marks(incident: Account, axis: Axis, height: float) -> list[str]:
    """What happened between steps: other runners, operators, the total deadline, the end."""
    names = {
        EventKind.OPENED: "opened",
        EventKind.APPROVED: "approved",
        EventKind.ABORTED: "aborted",
        EventKind.REOPENED: "resumed",
        EventKind.DEADLINE: "total deadline",
    }
    parts: list[str] = []
    last = -1e9
    for event in incident.events:
        name = names.get(event.kind, "")
        if event.kind is EventKind.RUNNER and event.data.get("resumed") is True:
            name = "another runner"
        if not name or not axis.holds(event.at):
            continue
        x = axis.x(event.at)
        parts.append(f'<line class="faint" x1="{x}" y1="{HEAD}" x2="{x}" y2="{height}"/>')
        if x - last > 90:  # names that would stand on each other are in the table
            parts.append(label(x + 3, HEAD - 4, name))
            last = x
    return parts


def tones() -> frozenset[str]:
    """The tones that bars may have: the theme has a rule for each."""
    return frozenset(look.tone for look in ENDINGS.values())
