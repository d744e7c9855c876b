"""Flight Recorder dumps as JSON: `_dump_nccl_trace_json`, the debug server's `fr_trace_json`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.flight_dump import MARKERS, looks_like_dump, reading
from rankmuster.evidence.flight_many import add_all
from rankmuster.evidence.flight_table import ColumnBuilder
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind

_HEAD = 65_536
_KEYS = tuple(f'"{key}"'.encode() for key in (*MARKERS, "comm_lib_version", "nccl_comm_state", "collective_seq_id"))
_ENTRIES = re.compile(r'"entries"\s*:\s*\[')


def recognises(blob: Blob) -> bool:
    """A JSON object that names two of the keys only a dump has (keys are sorted: `entries` comes first)."""
    start = blob.data[:64].lstrip(b"\xef\xbb\xbf \t\r\n")
    if not start.startswith(b"{"):
        return False
    ends = blob.data[:_HEAD] + blob.data[-_HEAD:]
    named = sum(key in ends for key in _KEYS)
    return (named >= 2 and b'"version"' in ends) or b'"collective_seq_id"' in ends


def _partial(text: str) -> tuple[dict[str, Any], list[Any]]:
    """Entries that stand whole before the cut."""
    found = _ENTRIES.search(text)
    entries: list[Any] = []
    if not found:
        return {}, entries
    decoder = json.JSONDecoder()
    position = found.end()
    while True:
        position = _skip(text, position)
        if position >= len(text) or text[position] != "{":
            return {"version": "2.10", "entries": []}, entries
        try:
            entry, position = decoder.raw_decode(text, position)
        except (json.JSONDecodeError, RecursionError, ValueError):
            return {"version": "2.10", "entries": []}, entries
        entries.append(entry)


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position


def _fast(data: bytes) -> Any:
    """The document, or None where it is none, or one that only the standard library takes (NaN, lone surrogates)."""
    import msgspec  # not needed by a watch, which reads no dumps

    try:
        return msgspec.json.decode(data)
    except (ValueError, RecursionError):
        return None


def read(blob: Blob) -> Reading:
    """One FlightDump; a cut file gives the entries that stand whole."""
    damage = None
    top = _fast(blob.data)
    entries = top.get("entries") if isinstance(top, Mapping) else None
    if top is None:
        text = blob.data.decode("utf-8-sig", errors="replace")
        try:
            top = json.loads(text)
            entries = top.get("entries") if isinstance(top, Mapping) else None
        except (json.JSONDecodeError, RecursionError, ValueError) as error:
            damage = f"broken JSON ({str(error)[:120]})"
            top, entries = _partial(text)
    if not looks_like_dump(top):
        message = f"looks like a Flight Recorder dump and is none: {damage or 'no version with pg_config or entries'}"
        return Reading((), (Problem(ProblemKind.DAMAGED, blob.path, message),), 1)
    builder = ColumnBuilder()
    if isinstance(entries, list):
        add_all(builder, [entry for entry in entries if isinstance(entry, Mapping)])
    return reading(blob.path, "json", top, builder, damage)


READER = Reader("Flight Recorder JSON", Plane.FLIGHT, ReaderKind.DOCUMENT, recognises, read)
