"""A node's summary of dumps (`rankmuster flight summarize`, schema `rankmuster.flight-summary/1`) -> its dumps.

Dumps come back as they were, but for stacks: of these only the last recorded call's. Their sources are
`NODE/path/of/the/dump`, so that a finding cites the original file and record. A summary that is damaged costs its
node's window: dumps without entries stand for those that it lists, since ranks whose dumps are lost have left some.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from typing import Any

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.flight_summary_columns import columns_of, stacks_of
from rankmuster.evidence.flight_summary_frame import KNOWN_BY, Framed, allowance, split
from rankmuster.evidence.flight_summary_numbers import Cursor, SummaryDamaged
from rankmuster.evidence.flight_summary_schema import MAX_PATH, SCHEMA, nothing
from rankmuster.evidence.flight_summary_tables import TableReader, number_of, text_of
from rankmuster.evidence.instance import MAX_RANK
from rankmuster.evidence.unpack import printable
from rankmuster.model.flight import DumpRequest, FlightColumns, FlightDump, PgStatus
from rankmuster.model.flight_summary import FlightSummary
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ranks_text import ranks_text
from rankmuster.model.stamp import Stamp, StampKind

_UNKNOWN = "its schema is {!r}, and this version reads " + repr(SCHEMA) + ": summarise and merge with the same version"
_MOST_VERSION = 10**9
_FAULTS = (SummaryDamaged, LookupError, TypeError, ValueError, ArithmeticError, AttributeError, RecursionError)
"""What a header of other types and values than a writer's makes Python raise."""


def recognises(blob: Blob) -> bool:
    """By its magic, also after a copy that changed line ends."""
    return blob.data.startswith(KNOWN_BY)


def read(blob: Blob) -> Reading:
    """All dumps, requests and facts of a summary, and one FlightSummary; of a damaged one what its header lists."""
    framed = split(blob.data)
    header: dict[str, Any] = {}
    damage = framed.damage
    kind = ProblemKind.DAMAGED
    try:
        header = _header(framed)
        schema = header["schema"]
        if schema != SCHEMA:
            damage, kind = _UNKNOWN.format(str(schema)[:60]), ProblemKind.REFUSED
        if damage is None:
            return _whole(blob, framed, header)
    except _FAULTS as fault:
        damage = damage or f"its tables are damaged ({str(fault)[:120]})"
    return _lost(blob.path, framed, header, damage or "nothing in it is usable", kind)


def _header(framed: Framed) -> dict[str, Any]:
    if framed.header is None:
        raise SummaryDamaged(framed.damage or "no header")
    header = json.loads(framed.header)
    if not isinstance(header, dict):
        raise SummaryDamaged("its header is no object")
    return header


def _whole(blob: Blob, framed: Framed, header: dict[str, Any]) -> Reading:
    left = allowance(len(blob.data))

    def spend(count: Any) -> None:
        nonlocal left
        left -= number_of(count, left)

    cursor = Cursor(framed.body or b"")
    tables = TableReader(header["tables"], cursor, spend)
    described = header["dumps"]
    for one in described:
        spend(one["entries"])
    stacks = stacks_of(header["stacks"], spend)
    columns = list(columns_of(described, tables, stacks, cursor))
    cursor.finish()
    node = _node(header)
    dumps = [_dump(node, one, own) for one, own in zip(described, columns, strict=True)]
    spans = [(int(d.columns.created_ns.min()), int(d.columns.created_ns.max())) for d in dumps if len(d.columns)]
    summary = FlightSummary(
        source=blob.path,
        node=node,
        host=_maybe_text(header["host"]),
        written=_seconds(header["written"]),
        digest=framed.digest,
        ranks=tuple(dump.rank for dump in dumps),
        entries=sum(len(dump.columns) for dump in dumps),
        from_ns=min((low for low, _ in spans), default=0),
        to_ns=max((high for _, high in spans), default=0),
    )
    observations: list[object] = [summary, *dumps, *_requests(node, header["requests"])]
    offsets = {text_of(host): _seconds(offset) for host, offset in header["clock_offsets"].items()}
    if offsets:
        observations.append(ManifestFacts(f"{node}/manifest.json", {}, {}, {}, offsets, {}))
    return Reading(tuple(observations), tuple(_problems(node, header["problems"])), 1)


def _dump(node: str, one: dict[str, Any], columns: FlightColumns) -> FlightDump:
    if one["form"] not in ("pickle", "json"):
        raise SummaryDamaged(f"a dump of the form {str(one['form'])[:40]!r}")
    major, minor = one["version"]
    return FlightDump(
        source=_source(node, one["path"]),
        rank=_rank(one["rank"]),
        host=_maybe_text(one["host"]),
        form=one["form"],
        version=(_version(major), _version(minor)),
        comm_lib_version=_maybe_text(one["lib"]),
        columns=columns,
        status={text_of(key): _status(row) for key, row in one["status"].items()},
        time=_stamp(one["time"]),
        only_active=one["only_active"] is True,
        cut=one["cut"] is True,
    )


def _lost(path: str, framed: Framed, header: dict[str, Any], damage: str, kind: ProblemKind) -> Reading:
    """What is left of a summary whose columns cannot be had."""
    dumps: list[FlightDump] = []
    node = host = None
    try:
        node, host = _node(header), _maybe_text(header["host"])
        for one in header["dumps"]:
            bare = {**one, "form": "pickle", "version": (0, 0), "lib": None, "status": {}, "time": None, "cut": True}
            dumps.append(_dump(node, bare, nothing()))
    except _FAULTS:
        pass  # the ranks before it are known
    ranks = tuple(dump.rank for dump in dumps)
    known = [rank for rank in ranks if rank is not None]
    whose = f"; it holds the dumps of {ranks_text(known)}" + (f" on {printable(node)}" if node else "") if known else ""
    message = f"a summary of Flight Recorder dumps: {damage}{whose}; summarise that node again"
    summary = FlightSummary(path, node, host, None, framed.digest, ranks, 0, 0, 0, damage)
    return Reading((summary, *dumps), (Problem(kind, path, message),), 1)


def _node(header: dict[str, Any]) -> str:
    return printable(text_of(header["node"])) or "node"


def _source(node: str, path: Any) -> str:
    return f"{node}/{printable(text_of(path, MAX_PATH))}"


def _maybe_text(value: Any) -> str | None:
    return None if value is None else text_of(value)


def _rank(value: Any) -> int | None:
    return None if value is None else number_of(value, MAX_RANK)


def _version(value: Any) -> int:
    return (
        -number_of(-value, _MOST_VERSION) if isinstance(value, int) and value < 0 else number_of(value, _MOST_VERSION)
    )


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise SummaryDamaged(f"{str(value)[:40]!r} stands where a time should")
    return float(value)


def _stamp(value: Any) -> Stamp | None:
    if value is None:
        return None
    seconds, kind = value
    return Stamp(_seconds(seconds), StampKind(kind))


def _status(row: Any) -> PgStatus:
    if any(isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 1 << 63 for value in row):
        raise SummaryDamaged("counters that are no numbers")
    enqueued, started, completed = row
    return PgStatus(enqueued, started, completed)


def _requests(node: str, rows: Iterable[Any]) -> Iterable[DumpRequest]:
    for path, rank, asked, written in rows:
        when = None if written is None else _seconds(written)
        yield DumpRequest(_source(node, path), _rank(rank), _seconds(asked), when)


def _problems(node: str, rows: Iterable[Any]) -> Iterable[Problem]:
    for kind, path, message in rows:
        yield Problem(ProblemKind(kind), _source(node, path), printable(text_of(message, MAX_PATH)))


READER = Reader("Flight Recorder summary", Plane.FLIGHT, ReaderKind.DOCUMENT, recognises, read)
