"""The flight report as JSON, schema `rankmuster.flight/1`: fields may be added, never renamed.

    {"schema": "rankmuster.flight/1",
     "verdict": {...rankmuster.verdict/1},
     "dumps": {"ranks": [...], "world": [...], "missing": [...], "empty": [...], "other_run": [{"rank", "seconds"}],
               "cut": [...], "only_active": [...], "in_motion": [...], "overwritten": {"ranks", "least", "most"} | null,
               "captured": [...], "damaged": ["file: why"], "entries": 0, ...},
     "previous": {"since": "went on", "believed": true, "note": "...", "went_on": [...], "stood": [...], ...} | null,
     "groups": [{"key": 0, "name": "0", "desc": "default_pg", "members": [...], "members_inferred": false,
                 "state": "not come", "accused": true,
                 "places": [{"ranks", "known", "entered", "finished", "stands": {...} | null}],
                 "divergence": {"sequence", "call", "entered", "missing", "unknown"} | null,
                 "difference": {"sequence", "kind", "odd", "camps": [{"ranks", "call"}], "later", "shift", ...} | null,
                 "window": {"first", "last", "common": [a, b] | null, "overwritten": [{"ranks", "first"}]} | null,
                 "gaps": [{"first", "last", "kind", "ranks"}], "messages": {...} | null, "exchanges": {...} | null,
                 "same_members": [keys], "since": unix seconds | null}],
     "stacks": {"accused": [...], "waiting": [...], "seen": [...], "without": [...]} | null,
     "aligned": [{"group": key, "columns": [[ranks]], "rows": [{"sequence", "call",
                  "cells": [{"step", "call"}]}]}] | null,
     "slow": null, "entries": [...] | null}

Groups come in order of interest. Numbers are torch's collective_seq_id, -1 for none; times unix seconds, those of
entries ns. One entry is also one line of `--format jsonl`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rankmuster.model.dump_sets import Between
from rankmuster.model.flight_entry import FlightEntry
from rankmuster.model.flight_report import (
    Aligned,
    CallStack,
    Camp,
    Difference,
    DumpsReport,
    FlightReport,
    GroupReport,
    Messages,
    RankPlace,
    StackReport,
)
from rankmuster.model.verdict import Verdict
from rankmuster.model.verdict_json import verdict_to_plain

SCHEMA = "rankmuster.flight/1"


def render(
    verdict: Verdict,
    report: FlightReport,
    *,
    selected: frozenset[int] | None = None,
    entries: Iterable[FlightEntry] | None = None,
    slow: dict[str, Any] | None = None,
    aligned: Iterable[Aligned] | None = None,
) -> str:
    """ASCII only, ending with a line break. `selected`: keys of the groups to write, None for all."""
    groups = [_group(group) for group in report.groups if selected is None or group.key in selected]
    value = {
        "schema": SCHEMA,
        "verdict": verdict_to_plain(verdict),
        "dumps": _dumps(report.dumps),
        "previous": _between(report.between) if report.between is not None else None,
        "groups": groups,
        "stacks": _stacks(report.stacks) if report.stacks is not None else None,
        "slow": slow,
        "aligned": [_aligned(one) for one in aligned] if aligned is not None else None,
        "entries": [entry_to_plain(entry) for entry in entries] if entries is not None else None,
    }
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def lines(entries: Iterable[FlightEntry]) -> Iterator[str]:
    """One entry a line, each ending with a line break."""
    for entry in entries:
        yield json.dumps(entry_to_plain(entry), allow_nan=False, separators=(",", ":")) + "\n"


def entry_to_plain(entry: FlightEntry) -> dict[str, Any]:
    """Times in ns since the epoch."""
    return {
        "rank": entry.rank,
        "record_id": entry.record_id,
        "group": entry.group,
        "group_name": entry.group_name,
        "group_desc": entry.group_desc,
        "kind": entry.kind.value,
        "sequence": entry.sequence,
        "p2p_sequence": entry.p2p_sequence,
        "op_id": entry.op_id,
        "op": entry.op,
        "input_sizes": entry.input_sizes,
        "output_sizes": entry.output_sizes,
        "input_dtypes": entry.input_dtypes,
        "output_dtypes": entry.output_dtypes,
        "state": entry.state,
        "retired": entry.retired,
        "created_ns": entry.created_ns,
        "started_ns": entry.started_ns,
        "completed_ns": entry.completed_ns,
        "duration_ms": entry.duration_ms,
        "timeout_ms": entry.timeout_ms,
        "stack": entry.stack,
        "folded": entry.folded,
    }


def _group(group: GroupReport) -> dict[str, Any]:
    first, window = group.divergence, group.window
    return {
        "key": group.key,
        "name": group.name,
        "desc": group.desc,
        "members": group.members,
        "state": group.state.value,
        "members_inferred": group.inferred,
        "accused": group.accused,
        "since": group.since,
        "places": [_place(place) for place in group.places],
        "divergence": None
        if first is None
        else {
            "sequence": first.sequence,
            "call": first.call,
            "entered": first.entered,
            "missing": first.missing,
            "unknown": first.unknown,
        },
        "difference": None if group.difference is None else _difference(group.difference),
        "window": None
        if window is None
        else {
            "first": window.first,
            "last": window.last,
            "common": window.common,
            "holders": window.holders,
            "overwritten": [{"ranks": ranks, "first": begin} for ranks, begin in window.overwritten],
            "beginnings": window.begins,
        },
        "gaps": [
            {"first": gap.first, "last": gap.last, "kind": gap.kind.value, "ranks": gap.ranks} for gap in group.gaps
        ],
        "messages": None if group.messages is None else _messages(group.messages),
        "exchanges": None
        if group.exchanges is None
        else {
            "compared": group.exchanges.compared,
            "clashing": group.exchanges.clashing,
            "clashes": [
                {
                    "sequence": clash.sequence,
                    "giver": clash.giver,
                    "taker": clash.taker,
                    "passed": clash.passed,
                    "expected": clash.expected,
                }
                for clash in group.exchanges.clashes
            ],
        },
        "same_members": group.same_members,
    }


def _place(place: RankPlace) -> dict[str, Any]:
    stands = place.stands
    return {
        "ranks": place.ranks,
        "known": place.known.value,
        "entered": place.entered,
        "finished": place.finished,
        "named": place.suspected,
        "stands": None
        if stands is None
        else {
            "group": stands.group,
            "sequence": stands.sequence,
            "op": stands.op,
            "peer": stands.peer,
            "started": stands.started,
            "since": stands.since,
        },
    }


def _camps(camps: Iterable[Camp]) -> list[dict[str, Any]]:
    return [{"ranks": camp.ranks, "call": camp.call} for camp in camps]


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "sequence": difference.sequence,
        "kind": difference.kind.value,
        "odd": difference.odd,
        "camps": _camps(difference.camps),
        "finished_by": difference.left,
        "shift": None if difference.shift is None else difference.shift.value,
        "later": difference.later,
        "examples": [{"sequence": number, "camps": _camps(camps)} for number, camps in difference.examples],
    }


def _messages(messages: Messages) -> dict[str, Any]:
    return {
        "pairs": messages.pairs,
        "matched": messages.matched,
        "unknown_pairs": messages.unknown,
        "one_sided_pairs": messages.one_sided,
        "clashing": messages.clashing,
        "clashes": [
            {
                "source": clash.source,
                "destination": clash.destination,
                "number": clash.number,
                "sent": clash.sent,
                "expected": clash.expected,
            }
            for clash in messages.clashes
        ],
        "unmatched_total": messages.unmatched_total,
        "unmatched": [
            {
                "source": lone.source,
                "destination": lone.destination,
                "side": lone.side,
                "count": lone.count,
                "stands": lone.stands,
            }
            for lone in messages.unmatched
        ],
    }


def _dumps(dumps: DumpsReport) -> dict[str, Any]:
    lost = dumps.overwritten
    return {
        "world": dumps.world,
        "ranks": dumps.ranks,
        "entries": dumps.entries,
        "missing": dumps.missing,
        "empty": dumps.empty,
        "other_run": [{"rank": rank, "seconds": seconds} for rank, seconds in dumps.other_run],
        "older_files": dumps.older_files,
        "cut": dumps.cut,
        "only_active": dumps.only_active,
        "in_motion": dumps.in_motion,
        "timed": dumps.timed,
        "overwritten": None if lost is None else {"ranks": lost.ranks, "least": lost.least, "most": lost.most},
        "captured": dumps.captured,
        "captured_records": dumps.captured_records,
        "coalesced": dumps.coalesced,
        "children": dumps.children,
        "batches": dumps.batches,
        "damaged": dumps.damaged,
        "other_damaged": dumps.other_damaged,
        "versions": dict(dumps.versions),
    }


def _between(between: Between) -> dict[str, Any]:
    return {
        "since": between.since.value,
        "believed": between.believed,
        "note": between.note,
        "seconds": between.seconds,
        "went_on": between.went_on,
        "stood": between.stood,
        "queued": between.queued,
        "drained": between.drained,
        "uncompared": between.uncompared,
        "strangers": between.strangers,
    }


def _stacks(stacks: StackReport) -> dict[str, Any]:
    return {
        "accused": [_stack(stack) for stack in stacks.accused],
        "waiting": [_stack(stack) for stack in stacks.waiting],
        "seen": stacks.seen,
        "without": stacks.without,
    }


def _aligned(aligned: Aligned) -> dict[str, Any]:
    return {
        "group": aligned.group,
        "columns": aligned.columns,
        "rows": [
            {
                "sequence": row.sequence,
                "call": row.call,
                "cells": [{"step": step.name.lower(), "call": call} for step, call in row.cells],
            }
            for row in aligned.rows
        ],
    }


def _stack(stack: CallStack) -> dict[str, Any]:
    return {
        "ranks": stack.ranks,
        "group": stack.group,
        "sequence": stack.sequence,
        "op": stack.op,
        "state": stack.state,
        "frames": stack.frames,
        "folded": stack.folded,
    }
