"""Records on a terminal: a table per rank, in program order, as many as were asked for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.table import Table

from rankmuster.model.flight_entry import EntryKind, FlightEntry
from rankmuster.report.flight.stacks import frames
from rankmuster.report.flight.words import MAX_NAME, counted
from rankmuster.report.inert import plain
from rankmuster.report.paper import Paper
from rankmuster.report.words import clock

MAX_SHAPES = 3
"""Tensors of one record that are written out."""

NARROW = 100
"""Columns below which the table does without the columns that can be missed best."""

SIGNS = {EntryKind.PART: "part", EntryKind.COALESCED: "end", EntryKind.BATCH: "end", EntryKind.CAPTURED: "graph"}


def print_entries(paper: Paper, rank: int, shown: Iterable[FlightEntry], chosen: int, total: int) -> None:
    """`chosen`: records that the filters leave of the rank's `total`."""
    found = list(shown)
    said = f"rank {rank}: {counted(len(found), 'record')}"
    if chosen > len(found):
        said += f", the newest of {chosen:,}"
    if total > chosen:
        said += f" (of {total:,} in the dump)"
    paper.heading("Records", said)
    if not found:
        return
    wide = paper.width >= NARROW
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim", show_edge=False)
    names = ["record", "group", "#", "op", "sizes", "dtype", "state", "enqueued", "took"]
    if not wide:
        names = ["group", "#", "op", "sizes", "state"]
    for name in names:
        table.add_column(name, justify="right" if name in ("record", "#", "took") else "left", overflow="fold")
    for entry in found:
        cells = {
            "record": str(entry.record_id),
            "group": _group(entry),
            "#": str(entry.sequence)
            if entry.kind not in (EntryKind.SEND, EntryKind.RECEIVE)
            else f"p{entry.p2p_sequence}",
            "op": _op(entry),
            "sizes": _sizes(entry),
            "dtype": "/".join(dict.fromkeys((*entry.input_dtypes, *entry.output_dtypes))),
            "state": _state(entry),
            "enqueued": clock(entry.created_ns / 1e9 if entry.created_ns else None),
            "took": _took(entry),
        }
        table.add_row(*(paper.text(cells[name]) for name in names))
    paper.table(table)
    if any(entry.stack for entry in found):
        _stacks(paper, found)


def _group(entry: FlightEntry) -> str:
    described = entry.group_desc if entry.group_desc not in ("", "undefined") else entry.group_name
    return plain(described, 24)


def _op(entry: FlightEntry) -> str:
    sign = SIGNS.get(entry.kind)
    return f"{plain(entry.op, MAX_NAME)}{f' ({sign})' if sign else ''}"


def _sizes(entry: FlightEntry) -> str:
    ins, outs = _shapes(entry.input_sizes), _shapes(entry.output_sizes)
    return ins if ins == outs or not outs else f"{ins} > {outs}"


def _shapes(shapes: Sequence[tuple[int, ...]]) -> str:
    shown = " ".join("x".join(map(str, shape)) or "1" for shape in shapes[:MAX_SHAPES])
    return f"{shown} and {len(shapes) - MAX_SHAPES} more" if len(shapes) > MAX_SHAPES else shown


def _state(entry: FlightEntry) -> str:
    if entry.retired and entry.state != "completed":
        return "retired"
    return entry.state


def _took(entry: FlightEntry) -> str:
    """On the GPU where it was timed; else from enqueueing until the host noticed the end, marked with ~."""
    if entry.duration_ms is not None:
        return f"{entry.duration_ms:.3f} ms"
    if entry.created_ns and entry.completed_ns:
        return f"~{max(0, entry.completed_ns - entry.created_ns) / 1e6:.1f} ms"
    return "-"


def _stacks(paper: Paper, found: Sequence[FlightEntry]) -> None:
    """Each distinct stack once, with the records that have it."""
    alike: dict[tuple[tuple[str, ...], int], list[int]] = {}
    for entry in found:
        if entry.stack:
            alike.setdefault((entry.stack, entry.folded), []).append(entry.record_id)
    for (stack, folded), records in alike.items():
        shown = ", ".join(map(str, records[:6])) + (f" and {len(records) - 6} more" if len(records) > 6 else "")
        paper.item("-", paper.text(f"records {shown}:", "bold"))
        frames(paper, stack, folded, 6)
