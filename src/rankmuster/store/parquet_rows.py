"""Rows of an export, each checked, into the tables of a history, within one transaction."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection

from rankmuster.model.benchmark import Cell, HistoryRun, HistoryValue, RunState
from rankmuster.model.history import ChangePoint, ChangeState
from rankmuster.store.changes import insert_change, read_changes
from rankmuster.store.documents import define_class, put_stored_admission, put_stored_fingerprint
from rankmuster.store.errors import Refused
from rankmuster.store.plain import VALUE_NUMBERS, cell_key, cell_of, check_run, check_value, choices_of, numbers_of
from rankmuster.store.stored import StoredAdmission, StoredFingerprint
from rankmuster.store.write_digests import write_digests
from rankmuster.store.write_runs import CHUNK, cell_numbers, insert_results, put_heads

Row = dict[str, Any]
Rows = Callable[[str], Iterable[Sequence[Row]]]


@dataclass(frozen=True, slots=True)
class Counted:
    """What an import did. `known`: runs, fingerprints, changes and admissions that were there already; `differing`:
    change points that are there with another decision, which stays."""

    runs: int = 0
    results: int = 0
    fingerprints: int = 0
    changes: int = 0
    admissions: int = 0
    known: int = 0
    differing: int = 0

    def __add__(self, other: Counted) -> Counted:
        return Counted(*(getattr(self, name) + getattr(other, name) for name in Counted.__slots__))


def store_rows(connection: Connection, rows: Rows) -> Counted:
    """Stores one export; `rows` gives the parts of a table by its name. Raises HistoryError."""
    try:
        wanted, new, known = _runs(connection, rows("runs"))
        results = _results(connection, rows("results"), wanted, new)
        write_digests(connection, min(new.values(), default=1) - 1)
        prints, old_prints = _fingerprints(connection, rows("fingerprints"))
        changes, old_changes, differing = _changes(connection, rows("changes"))
        admissions, old_admissions = _admissions(connection, rows("admissions"))
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise Refused(f"a row of it cannot be read ({type(error).__name__}: {error})") from error
    known += old_prints + old_changes + old_admissions
    return Counted(len(new), results, prints, changes, admissions, known, differing)


def _runs(connection: Connection, parts: Iterable[Sequence[Row]]) -> tuple[dict[str, int], dict[str, int], int]:
    """(results that each run has, numbers of the runs that are new, how many were there)."""
    wanted: dict[str, int] = {}
    new: dict[str, int] = {}
    for part in parts:
        for start in range(0, len(part), CHUNK):
            runs = []
            for row in part[start : start + CHUNK]:
                run = HistoryRun(
                    record=_text(row, "record"),
                    class_hash=_text(row, "class_hash"),
                    kin_hash=_text(row, "kin_hash"),
                    node_hash=_text(row, "node_hash"),
                    host=row["host"],
                    profile=_text(row, "profile"),
                    tool=_text(row, "tool"),
                    reason=_text(row, "reason"),
                    started_at=_number(row, "started_at"),
                    state=RunState(row["state"]),
                    settings=tuple(sorted(json.loads(row["settings"]).items())),
                    choices=choices_of(row["choices"]),
                )
                check_run(run)
                if run.record in wanted:
                    raise Refused(f"the run {run.record[:20]} is in it twice")
                wanted[run.record] = int(row["results"])
                runs.append(run)
            new |= put_heads(connection, runs, whole=False)
    return wanted, new, len(wanted) - len(new)


def _results(
    connection: Connection, parts: Iterable[Sequence[Row]], wanted: dict[str, int], new: dict[str, int]
) -> int:
    missing = dict(wanted)
    stored = 0
    for part in parts:
        values: list[tuple[int, int, HistoryValue]] = []
        for row in part:
            record = _text(row, "record")
            if missing.get(record, 0) <= 0:
                raise Refused(f"it has results of the run {record[:20]} that the run does not count")
            missing[record] -= 1
            if record in new:
                value = HistoryValue(_cell(row), *(row[name] for name in VALUE_NUMBERS))
                check_value(value, record)
                values.append((new[record], int(row["position"]), value))
        cells = cell_numbers(connection, {value.cell for _, _, value in values})
        insert_results(
            connection,
            [(number, place, cells[cell_key(value.cell)], *numbers_of(value)) for number, place, value in values],
        )
        stored += len(values)
    if lacking := [record for record, count in missing.items() if count]:
        raise Refused(f"{len(lacking)} of its runs lack results, first {lacking[0][:20]}: it was cut or mixed up")
    return stored


def _fingerprints(connection: Connection, parts: Iterable[Sequence[Row]]) -> tuple[int, int]:
    new = known = 0
    for row in (row for part in parts for row in part):
        facts = {name: row[name] for name in ("host", "node_hash", "class_hash", "kin_hash", "topology_hash")}
        stored = StoredFingerprint(
            **facts,
            taken_at=_number(row, "taken_at"),
            document=row["document"],
            gpu_model=row["gpu_model"],
            gpu_count=row["gpu_count"],
        )
        if stored.class_hash and stored.kin_hash and row["class_settings"] and row["class_definition"]:
            define_class(connection, stored.class_hash, stored.kin_hash, row["class_settings"], row["class_definition"])
        if put_stored_fingerprint(connection, stored):
            new += 1
        else:
            known += 1
    return new, known


def _changes(connection: Connection, parts: Iterable[Sequence[Row]]) -> tuple[int, int, int]:
    new = known = differing = 0
    there = {(point.class_hash, point.profile, point.cell, point.at): point for point in read_changes(connection)}
    for row in (row for part in parts for row in part):
        point = ChangePoint(
            class_hash=_text(row, "class_hash"),
            profile=_text(row, "profile"),
            cell=None if row["operation"] is None else _cell(row),
            at=_number(row, "at"),
            before=row["level_before"],
            after=row["level_after"],
            nodes=int(row["nodes"]),
            state=ChangeState(row["state"]),
            note=_text(row, "note"),
            until=row["kept_out_until"],
        )
        key = (point.class_hash, point.profile, point.cell, point.at)
        if key not in there:
            there[key] = insert_change(connection, point)
            new += 1
            continue
        known += 1
        differing += (there[key].state, there[key].until) != (point.state, point.until)
    return new, known, differing


def _admissions(connection: Connection, parts: Iterable[Sequence[Row]]) -> tuple[int, int]:
    new = known = 0
    for row in (row for part in parts for row in part):
        stored = StoredAdmission(
            hash=_text(row, "hash"),
            decision=_text(row, "decision"),
            nodes=tuple(str(node) for node in json.loads(row["node_names"])),
            class_hash=row["class_hash"],
            profile=_text(row, "profile"),
            started_at=_number(row, "started_at"),
            ended_at=_number(row, "ended_at"),
            document=row["document"],
        )
        if put_stored_admission(connection, stored):
            new += 1
        else:
            known += 1
    return new, known


def _cell(row: Row) -> Cell:
    return cell_of(_text(row, "operation"), row["size_bytes"], _text(row, "dtype"), row["in_place"], row["graph"])


def _text(row: Row, name: str) -> str:
    value = row[name]
    if not isinstance(value, str):
        raise Refused(f"a row of it has no {name}")
    return value


def _number(row: Row, name: str) -> float:
    value = row[name]
    if not isinstance(value, float) or not math.isfinite(value):
        raise Refused(f"a row of it has no number as {name}")
    return value
