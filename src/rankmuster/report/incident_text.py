"""An incident on a terminal: what is the state now and what is to do, then the timeline, then what the rest rests on.

No box glyphs, and signs beside every colour: it reads the same through a pipe, on a serial console, without colour.
"""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from rankmuster.report.incident_account import Account
from rankmuster.report.incident_impact import impact, saved
from rankmuster.report.incident_nodes import NodeState, node_accounts
from rankmuster.report.incident_rows import Row, rows
from rankmuster.report.incident_standing import skipped, standing
from rankmuster.report.incident_words import OUTCOMES, RETESTS, since
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.words import accused, class_name, clock, span, story

NARROW = 72
"""Columns below which there is no room for words beside the columns."""

AT_ROOM = 11
NAME_AT = 17
"""Column at which names begin."""

NAME_ROOM = 13
STATE_ROOM = 9
WORDS_ROOM = 30
"""Columns that words need beside the columns; else what took room stands among them."""

MOST_LISTED = 40
"""Nodes, or paths of evidence, shown; JSON has all."""


def render(incident: Account, console: Console, *, now: float, lease: str | None = "") -> None:
    """Print the whole answer. `lease`: who works on it now, None for nobody; empty where that is not known."""
    paper = Paper(console)
    told = standing(incident, now, lease)
    look = OUTCOMES[incident.outcome]
    word, _, rest = told.state.partition(" ")
    paper.line(paper.text(word, look.terminal), paper.text(rest, "bold"), whole=True)
    for number, line in enumerate(told.todo, start=1):
        paper.item(f"{number}.", paper.text(line), style="bold")
    _head(paper, incident, lease)
    paper.heading("Timeline", f"from {clock(incident.opened_at, date=True)}")
    shown = rows(incident, now)
    room = max((len(row.took) for row in shown if not row.level), default=0)
    for row in shown:
        _row(paper, row, incident.opened_at, room)
    left = skipped(incident)
    if left:
        paper.heading("Skipped")
        for stage in left:
            paper.item(
                ".", paper.text(f"{stage.step.value}: {stage.note or 'the incident was closed before it came to this'}")
            )
    _nodes(paper, incident)
    _evidence(paper, incident)


def _head(paper: Paper, incident: Account, lease: str | None) -> None:
    opening = incident.opening
    facts = [f"incident {plain(incident.id, 80)}", f"instance {plain(incident.instance, 100)}"]
    if opening and opening.incarnation:
        facts.append(f"incarnation {plain(opening.incarnation, 100)}")
    if lease:
        facts.append(f"worked on by {plain(lease, 100)}")
    paper.line(paper.text(", ".join(facts), "dim"))
    told = impact(incident)
    if told.fault_at is None:
        costs = [f"detected at {clock(told.detected_at, date=True)}, the fault some time before"]
    else:
        costs = [f"fault at {clock(told.fault_at, date=True)}"]
        costs.append(f"detected after {span(max(0.0, told.detected_at - told.fault_at))}")
    if told.terminated_at is not None:
        costs.append(f"GPUs free after {span(max(0.0, told.terminated_at - told.counted_from))}")
    if told.down_seconds is not None:
        costs.append(f"traffic back after {span(told.down_seconds)}")
    if told.requests is not None:
        costs.append(f"{told.requests} requests hit")
    paper.line(paper.text("; ".join(costs), "dim"))
    verdict = incident.verdict
    if verdict is not None:
        sure = f" ({verdict.confidence.value})" if verdict.confidence else ""
        more = f" - {story(verdict)}" if verdict.summary else ""
        paper.line(paper.text(f"verdict: {class_name(verdict)}{sure}, {accused(verdict)}{more}"))


def _row(paper: Paper, row: Row, start: float, room: int) -> None:
    at = since(start, row.at) if row.at is not None else ""
    style = row.look.terminal
    sign = (Text(f"{row.look.terminal_sign:>3}", style=style), 3)
    if paper.width < NARROW:
        facts = " ".join(part for part in (at, row.name, row.state, row.took) if part)
        paper.item(row.look.terminal_sign, paper.text(facts), paper.text(row.words), style=style)
    elif row.level:
        # names of actions are longer than those of steps: they take the room of the columns beside them
        name = (paper.text(f"- {row.name}"), max(len(row.name) + 2, NAME_ROOM))
        did = Text(f"{row.state} {row.took}{':' if row.words else ''}", style=style)
        if paper.width - NAME_AT - name[1] < WORDS_ROOM:
            paper.entry((sign, (Text(""), AT_ROOM)), Text(" ").join([name[0], did, paper.text(row.words)]))
        else:
            paper.entry((sign, (Text(""), AT_ROOM), name), Text(" ").join([did, paper.text(row.words)]))
    else:
        columns = [sign, (Text(f"{at:>{AT_ROOM}}"), AT_ROOM), (paper.text(row.name, "bold"), NAME_ROOM)]
        if row.state:
            columns.append((Text(row.state, style=style), STATE_ROOM))
        words = [row.words]
        if row.took and paper.width - NAME_AT - NAME_ROOM - STATE_ROOM - room < WORDS_ROOM:
            words = [f"{row.took};" if row.words else row.took, row.words]
        elif row.took:
            columns.append((Text(row.took), room))
        paper.entry(columns, paper.text(" ".join(words)))
    for line in row.lines:
        paper.line(paper.text("would:", "dim"), paper.text(line), indent=NAME_AT if paper.width >= NARROW else 4)


def _nodes(paper: Paper, incident: Account) -> None:
    nodes = node_accounts(incident)
    if not nodes:
        return
    paper.heading("Nodes")
    for node in nodes[:MOST_LISTED]:
        tested = f", re-test {RETESTS[node.retest].word}" if node.retest else ""
        sign = "*" if node.state is NodeState.QUARANTINED else "-"
        note = f" - {node.note}" if node.note else ""
        record = f" [{node.record}]" if node.record else ""
        paper.item(sign, paper.text(f"{node.node}: {node.state.value}{tested}{note}{record}"))
    if len(nodes) > MOST_LISTED:
        paper.line(paper.text(f"and {len(nodes) - MOST_LISTED} more; JSON has them", "dim"), indent=4)


def _evidence(paper: Paper, incident: Account) -> None:
    found = saved(incident)
    lines = [f"{one.path}{f' ({one.digest})' if one.digest else ''}" for one in found]
    paper.listing("Evidence", lines, "-", MOST_LISTED)
