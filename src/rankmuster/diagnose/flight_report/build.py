"""The whole report: every group, its most telling state, and the groups in order of interest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.waiting import graph_of
from rankmuster.diagnose.flight_report.differences import differences
from rankmuster.diagnose.flight_report.divergence import divergence
from rankmuster.diagnose.flight_report.dumps import dumps_report, silence
from rankmuster.diagnose.flight_report.exchanges import exchanges
from rankmuster.diagnose.flight_report.messages import messages
from rankmuster.diagnose.flight_report.roll_call import places
from rankmuster.diagnose.flight_report.stacks import stack_report
from rankmuster.diagnose.flight_report.state import moves, state_of
from rankmuster.diagnose.flight_report.windows import gaps, window
from rankmuster.diagnose.roll import Head
from rankmuster.diagnose.run import Examination
from rankmuster.model.flight_report import FlightReport, GroupReport, GroupState
from rankmuster.model.job import Group
from rankmuster.model.verdict import Verdict


def flight_report(examined: Examination, *, stacks: bool = False, examples: int = 0) -> FlightReport:
    """Everything that the dumps of one diagnosis say, group by group.

    `stacks`: with what hosts were doing, which reads the stacks of the dumps. `examples`: differing numbers per group
    that are told beside the first.
    """
    context, verdict = examined.context, examined.diagnosis.verdict
    table = context.table
    moving = moves(verdict, context.in_motion)
    older = frozenset() if moving else graph_of(context).older
    named = frozenset(verdict.named)
    silent = silence(context)
    different = differences(context, examined.findings, examples)
    sent, exchanged = messages(context), exchanges(context, different)
    standing: dict[int, list[Head]] = defaultdict(list)
    for head in table.heads.values():
        if head is not None:
            standing[head.group].append(head)
    twins = _twins(table.groups)
    told = _told(context)
    reports = []
    for group in table.groups:
        key = group.key
        there = places(context, group, older, named, silent)
        first = divergence(context, group, there)
        state = state_of(key, there, standing[key], table.heads, different.get(key), first, moving)
        reports.append(
            GroupReport(
                key=key,
                name=group.name,
                desc=group.desc,
                label=group.label,
                members=group.members,
                state=state,
                places=there,
                divergence=first,
                difference=different.get(key),
                window=window(context, group),
                gaps=gaps(context, group),
                messages=sent.get(key),
                exchanges=exchanged.get(key),
                same_members=tuple(other for other in twins[group.members] if other != key),
                accused=_is_accused(verdict, group),
                since=min((head.created for head in standing[key] if head.created > 0), default=None),
                inferred=key not in told,
            )
        )
    reports.sort(key=_interest)
    return FlightReport(
        groups=tuple(reports),
        dumps=dumps_report(context, silent),
        between=context.between,
        stacks=stack_report(context, verdict) if stacks else None,
    )


def _told(context: Context) -> set[int]:
    """Keys of the groups whose members a dump's own table has."""
    rows = context.table.rows
    return {
        key
        for (rank, index), key in context.table.local_groups.items()
        if rank in rows and rows[rank].dump.columns.groups[index].members
    }


def _twins(groups: Iterable[Group]) -> dict[tuple[int, ...], list[int]]:
    found: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for group in groups:
        found[group.members].append(group.key)
    return found


def _is_accused(verdict: Verdict, group: Group) -> bool:
    first = verdict.first_divergence
    return first is not None and first.group == group.label and first.members == group.members


def _interest(report: GroupReport) -> tuple[object, ...]:
    """The verdict's group first, then by state, then by who stood first."""
    order = list(GroupState).index(report.state)
    sizes = report.messages is not None and report.messages.clashing > 0
    since = report.since if report.since is not None else float("inf")
    return (not report.accused, order, not sizes, since, report.key)
