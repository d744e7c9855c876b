"""One group on the terminal: who is where, where they part, and what the dumps hold of it."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.model.fault import Role
from rankmuster.model.flight_report import (
    Difference,
    Divergence,
    Exchanges,
    Gap,
    GapKind,
    GroupReport,
    GroupState,
    Messages,
    RankPlace,
    Window,
)
from rankmuster.model.ranks_text import ranks_text
from rankmuster.report import theme
from rankmuster.report.flight.words import (
    AT_THIS_LOOK,
    DIFFERENCES,
    GAPS,
    SHIFTS,
    STATES,
    counted,
    group_name,
    number,
    place,
    range_text,
    short_ranks,
)
from rankmuster.report.paper import Paper

MAX_PLACES = 12
"""Lines of members of one group; those whom the verdict names come first, then the smallest sets."""

MAX_CAMPS = 4
"""Different calls under one number that are written out."""

MAX_LINES = 6
"""Lines of messages, gaps or parts of one group; JSON has more."""

QUIET = frozenset({GroupState.TAIL, GroupState.LEVEL, GroupState.QUEUED, GroupState.HELD})
"""States that explain nothing by themselves."""

MOVING = "; not there yet, which is the ordinary tail of a job that moves: "


def print_group(
    paper: Paper, report: GroupReport, roles: Mapping[int, Role], labels: dict[int, str], *, stopped: bool
) -> None:
    """`labels`: of all groups, by key. `stopped`: the verdict is of a fault; else who stands may as well pass."""
    fault = report.state not in QUIET
    open_ = fault and not stopped and report.state is not GroupState.DIFFERENCE
    sign = "?" if open_ else "!"
    paper.line(
        paper.text(group_name(report), "bold"),
        paper.text(f"- {AT_THIS_LOOK if open_ else STATES[report.state]}", "yellow" if fault else "dim"),
    )
    if report.inferred:
        _note(paper, "members as dumps show them, none has the group's table: those without a dump are not known")
    if report.difference is not None:
        _difference(paper, report.difference)
    if report.divergence is not None:
        _divergence(paper, report.divergence, report.state, report.difference, sign)
    for there in report.places[:MAX_PLACES]:
        _place(paper, there, report, roles, labels)
    left = report.places[MAX_PLACES:]
    if left:
        ranks = [rank for there in left for rank in there.ranks]
        _note(paper, f"and {counted(len(left), 'more place')} of {short_ranks(ranks)}; JSON has them")
    if report.messages is not None:
        _messages(paper, report.messages, report.state, sign)
    if report.exchanges is not None:
        _exchanges(paper, report.exchanges)
    for gap in report.gaps[:MAX_LINES]:
        _gap(paper, gap)
    if len(report.gaps) > MAX_LINES:
        _note(paper, f"and {len(report.gaps) - MAX_LINES} more gaps in the numbers; JSON has them")
    if report.window is not None and not messages_only(report):
        _window(paper, report.window)
    if report.same_members:
        twins = ", ".join(paper.text(labels[key]).plain for key in report.same_members[:MAX_LINES])
        more = len(report.same_members) - MAX_LINES
        _note(paper, f"the same members as {twins}{f' and {more} more' if more > 0 else ''}, a group of its own")


def messages_only(report: GroupReport) -> bool:
    """Whether the group has sends and receives alone: torch's numbers of collectives begin at 1."""
    return report.messages is not None and (report.window is None or report.window.last <= 0)


def _note(paper: Paper, words: str) -> None:
    paper.item("", paper.text(words, "dim"))


def _difference(paper: Paper, difference: Difference) -> None:
    kind = DIFFERENCES.get(difference.kind, "other calls")
    paper.item("!", paper.text(f"#{difference.sequence}: {kind} under one number", "bold"))
    for camp in difference.camps[::-1][-MAX_CAMPS:]:
        odd = " (odd)" if set(camp.ranks) <= set(difference.odd) else ""
        paper.line(paper.text(f"{short_ranks(camp.ranks)}{odd} passed {camp.call}"), indent=6)
    if len(difference.camps) > MAX_CAMPS:
        paper.line(paper.text(f"and {len(difference.camps) - MAX_CAMPS} other calls", "dim"), indent=6)
    if not difference.odd:
        paper.line(paper.text("no majority: this alone says of nobody that it is the odd one", "dim"), indent=6)
    if difference.shift is not None:
        paper.line(paper.text(f"of {ranks_text(difference.odd)} {SHIFTS[difference.shift]}"), indent=6)
    if difference.left:
        paper.line(paper.text(f"{short_ranks(difference.left)} finished it all the same", "dim"), indent=6)
    for sequence, camps in difference.examples:
        said = "; ".join(f"{short_ranks(camp.ranks)} passed {camp.call}" for camp in camps[::-1][-MAX_CAMPS:])
        paper.line(paper.text(f"#{sequence}: {said}"), indent=6)
    rest = difference.later - len(difference.examples)
    if rest > 0:
        more = counted(rest, "later number differs", "later numbers differ")
        paper.line(paper.text(f"{more} too, as they do behind a first one (--differences shows them)", "dim"), indent=6)


def _divergence(paper: Paper, first: Divergence, state: GroupState, difference: Difference | None, sign: str) -> None:
    where = f"{number(first.sequence)} {first.call}".rstrip()
    if state in (GroupState.TAIL, GroupState.LEVEL):
        paper.item("", paper.text(f"{where}: {_came(first)}{MOVING}{short_ranks(first.missing)}", "dim"))
        return
    quiet = state is not GroupState.NOT_COME or difference is not None
    have = "have" if len(first.missing) > 1 else "has"
    missing = f"{short_ranks(first.missing)} {have} not"
    if len(first.missing) > len(first.entered):
        missing = f"the other {counted(len(first.missing), 'member')} {have} not: {short_ranks(first.missing)}"
    if quiet:
        # Nobody stands there yet: how far each has enqueued ahead, and no fault of who has enqueued less.
        words = (
            f"further on, {where}: enqueued by {short_ranks(first.entered)}, not yet by {short_ranks(first.missing)}"
        )
        paper.item("", paper.text(words, "dim"))
        return
    unknown = f"; unknown of {short_ranks(first.unknown)}" if first.unknown else ""
    paper.item(sign, paper.text(f"{where}: {_came(first)}, {missing}{unknown}"))


def _came(first: Divergence) -> str:
    return f"{short_ranks(first.entered)} entered"


def _place(
    paper: Paper, there: RankPlace, report: GroupReport, roles: Mapping[int, Role], labels: dict[int, str]
) -> None:
    role = next((roles[rank] for rank in there.ranks if rank in roles), None) if there.suspected else None
    look = theme.ROLES.get(role) if role is not None else None
    words = f"{short_ranks(there.ranks)} {place(there, report.key, labels, messages_only(report))}"
    style = look.terminal if look is not None else ""
    paper.item(look.terminal_sign if look is not None else ".", paper.text(words, style), style=style)


def _messages(paper: Paper, messages: Messages, state: GroupState, sign: str) -> None:
    quiet = state in QUIET
    pairs = counted(messages.pairs, "pair")
    parts = [f"{counted(messages.matched, 'message')} between {pairs} matched by order"]
    if not messages.matched:
        parts = [f"no message between {pairs} could be matched"]
    if messages.unknown:
        parts.append(f"order unknown for {counted(messages.unknown, 'pair')}, whose rings lost the beginning")
    if messages.one_sided:
        parts.append(f"{counted(messages.one_sided, 'pair')} with a dump at one end only")
    _note(paper, "; ".join(parts))
    for clash in messages.clashes[:MAX_LINES]:
        words = (
            f"message {clash.number} from rank {clash.source} to rank {clash.destination}: {clash.sent} elements "
            f"sent, {clash.expected} expected"
        )
        paper.item("!", paper.text(words))
    if messages.clashing > MAX_LINES:
        _note(paper, f"and {messages.clashing - MAX_LINES} more messages whose sizes disagree")
    for lone in messages.unmatched[:MAX_LINES]:
        if lone.side == "send":
            words = f"rank {lone.source} sends to rank {lone.destination}, which has issued no receive for it"
        else:
            words = f"rank {lone.destination} receives from rank {lone.source}, which has issued no send for it"
        words += f" ({lone.count} messages)" if lone.count > 1 else ""
        ahead = quiet or not lone.stands
        paper.item(
            "" if ahead else sign, paper.text(f"further on, {words}" if ahead else words, "dim" if ahead else "")
        )
    if len(messages.unmatched) > MAX_LINES:
        _note(paper, f"{messages.unmatched_total} messages without their other end in all; JSON has more of them")


def _exchanges(paper: Paper, exchanges: Exchanges) -> None:
    what = counted(exchanges.compared, "exchange")
    if not exchanges.clashing:
        _note(paper, f"{what} of uneven parts (legal), compared peer by peer: they agree")
        return
    _note(paper, f"{what} of uneven parts (legal), compared peer by peer: {exchanges.clashing} disagree")
    for clash in exchanges.clashes[:MAX_LINES]:
        words = f"#{clash.sequence}: rank {clash.giver} passes {clash.passed} elements to rank {clash.taker}, "
        paper.item("!", paper.text(f"{words}which expects {clash.expected}"))


def _gap(paper: Paper, gap: Gap) -> None:
    if gap.kind is GapKind.COMMON:
        _note(paper, f"{range_text(gap.first, gap.last)}: {GAPS[gap.kind]}")
    else:
        _note(paper, f"{range_text(gap.first, gap.last)} on {short_ranks(gap.ranks)}: {GAPS[gap.kind]}")


def _window(paper: Paper, window: Window) -> None:
    if window.common is None:
        held = f"dumps hold {range_text(window.first, window.last)}, and no number that all {window.holders} have"
    elif window.common == (window.first, window.last):
        held = f"dumps hold {range_text(window.first, window.last)}"
    else:
        held = f"dumps hold {range_text(window.first, window.last)}, all of them {range_text(*window.common)}"
    for ranks, first in window.overwritten[:2]:
        held += f"; unknown before #{first} of {short_ranks(ranks)}"
    if window.begins > 2:
        held += f"; {window.begins - 2} more beginnings"
    _note(paper, held)
