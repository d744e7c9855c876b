"""What the dumps of a node have in common, once: groups, operations, sizes, data types, and calls made of them.

A dump's own tables are lists of places in these; most dumps of a node have the same lists, which are kept once too.
Read back, dumps of one list share one tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from rankmuster.evidence.flight_members import MembersCache
from rankmuster.evidence.flight_summary_numbers import Cursor, SummaryDamaged, unpack
from rankmuster.evidence.flight_summary_pack import pack
from rankmuster.evidence.flight_table import MAX_NAME
from rankmuster.evidence.instance import MAX_RANK
from rankmuster.model.flight import CallField, FlightColumns, FlightGroup, Ints

T = TypeVar("T")

_FIELDS = len(CallField)
_SHARED = MembersCache()  # every node's summary has the members of the whole job
_MOST = (1 << 31) - 1
_NAMES = ("groups", "ops", "sizes", "dtypes")


class TableWriter:
    """Collects the tables of dumps. `values`: items in them, which count as entries do."""

    def __init__(self) -> None:
        self._values: dict[str, dict[Any, int]] = {name: {} for name in _NAMES}
        self._lists: dict[str, dict[tuple[int, ...], int]] = {name: {} for name in _NAMES}
        self._members: dict[tuple[int, ...], int] = {}
        self._calls: dict[bytes, int] = {}
        self.values = 0

    def add(self, columns: FlightColumns) -> list[int]:
        """The places of one dump's tables: groups, ops, sizes, dtypes, calls."""
        own: dict[str, Sequence[Any]] = {
            "groups": [self._group(group) for group in columns.groups],
            "ops": columns.ops,
            "sizes": columns.sizes,
            "dtypes": columns.dtypes,
        }
        places = []
        for name in _NAMES:
            known, lists = self._values[name], self._lists[name]
            listed = tuple(known.setdefault(value, len(known)) for value in own[name])
            places.append(lists.setdefault(listed, len(lists)))
        rows = np.ascontiguousarray(columns.calls, dtype="<i8").tobytes()
        return [*places, self._calls.setdefault(rows, len(self._calls))]

    def _group(self, group: FlightGroup) -> tuple[str, str, int, int | None]:
        members = -1 if group.members is None else self._members.setdefault(group.members, len(self._members))
        return group.name, group.desc, members, group.pg_id

    def header(self, pieces: list[bytes]) -> dict[str, Any]:
        """All tables as JSON; what is numbers goes to `pieces`."""

        def put(values: Sequence[int] | Ints) -> list[object]:
            self.values += len(values)
            return [len(values), pack(np.asarray(values, dtype=np.int64), pieces)]

        tensors = [shape for sizes in self._values["sizes"] for shape in sizes]
        calls = [np.frombuffer(rows, dtype="<i8").reshape(-1, _FIELDS).T.ravel() for rows in self._calls]
        return {
            "members": [put(members) for members in self._members],
            "groups": [list(group) for group in self._values["groups"]],
            "ops": list(self._values["ops"]),
            "dtypes": [list(names) for names in self._values["dtypes"]],
            "sizes": [
                put([len(sizes) for sizes in self._values["sizes"]]),
                put([len(shape) for shape in tensors]),
                put([size for shape in tensors for size in shape]),
            ],
            "lists": {name: [put(listed) for listed in self._lists[name]] for name in _NAMES},
            "calls": [put(rows) for rows in calls],
        }


class TableReader:
    """The same, read back and checked. Raises SummaryDamaged; other types in the header raise what Python does."""

    def __init__(self, header: dict[str, Any], cursor: Cursor, spend: Callable[[int], None]) -> None:
        def take(described: list[Any]) -> Ints:
            count, form = described
            spend(count)
            return unpack(form, count, cursor)

        members = [_members(take(described)) for described in header["members"]]
        ops = [text_of(op) for op in header["ops"]]
        dtypes = [tuple(text_of(name) for name in names) for names in header["dtypes"]]
        spend(sum(map(len, dtypes)))
        values: dict[str, Sequence[Any]] = {
            "groups": [_group(row, members) for row in header["groups"]],
            "ops": ops,
            "sizes": _sizes(*(take(described) for described in header["sizes"])),
            "dtypes": dtypes,
        }
        self._lists = {
            name: [_listed(take(described), values[name]) for described in header["lists"][name]] for name in _NAMES
        }
        self._calls = [_calls(take(described)) for described in header["calls"]]
        self._sound: set[tuple[int, ...]] = set()

    def of(self, places: list[Any]) -> dict[str, Any]:
        """One dump's tables, by the names that FlightColumns gives them."""
        groups, ops, sizes, dtypes, calls = (number_of(place, _MOST) for place in places)
        found: dict[str, Any] = {
            "groups": self._lists["groups"][groups],
            "ops": self._lists["ops"][ops],
            "sizes": self._lists["sizes"][sizes],
            "dtypes": self._lists["dtypes"][dtypes],
            "calls": self._calls[calls],
        }
        key = (groups, ops, sizes, dtypes, calls)
        if key not in self._sound:
            _check(found)
            self._sound.add(key)
        return found


def _check(tables: dict[str, Any]) -> None:
    """Every call points at something that is there."""
    calls: Ints = tables["calls"]
    pointing = (
        (CallField.GROUP, "groups"),
        (CallField.OP, "ops"),
        (CallField.IN_SIZES, "sizes"),
        (CallField.OUT_SIZES, "sizes"),
        (CallField.IN_DTYPES, "dtypes"),
        (CallField.OUT_DTYPES, "dtypes"),
    )
    for field, name in pointing:
        within(calls[:, field], len(tables[name]), name)
    within(calls[:, CallField.IS_P2P], 2, "flags")


def within(column: Ints, count: int, what: str) -> None:
    """Raises SummaryDamaged unless every value is in 0 … count - 1."""
    if len(column) and (int(column.min()) < 0 or int(column.max()) >= count):
        raise SummaryDamaged(f"it points at {what} that it does not have")


def number_of(value: Any, most: int) -> int:
    """A count or place of the header, 0 to `most`. Raises SummaryDamaged."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= most:
        raise SummaryDamaged(f"{str(value)[:40]!r} stands where a number up to {most} should")
    return value


def _listed(places: Ints, values: Sequence[T]) -> tuple[T, ...]:
    within(places, len(values), "a table's items")
    return tuple(values[place] for place in places.tolist())


def _calls(flat: Ints) -> Ints:
    if len(flat) % _FIELDS:
        raise SummaryDamaged("its calls are not whole")
    return np.ascontiguousarray(flat.reshape(_FIELDS, -1).T)


def _members(column: Ints) -> tuple[int, ...]:
    within(column, MAX_RANK, "ranks")
    if not len(column) or bool((column[1:] <= column[:-1]).any()):
        raise SummaryDamaged("the members of a group are not in order")
    key = column.astype("<i4").tobytes().decode("latin-1")
    members = _SHARED.get(key, lambda _: tuple(column.tolist()))
    return members or ()


def _group(row: Any, members: list[tuple[int, ...]]) -> FlightGroup:
    name, desc, place, pg_id = row
    known = None if place == -1 else members[number_of(place, _MOST)]
    if pg_id is not None and (isinstance(pg_id, bool) or not isinstance(pg_id, int) or abs(pg_id) >= 1 << 63):
        raise SummaryDamaged(f"{str(pg_id)[:40]!r} stands where the number of a group should")
    return FlightGroup(text_of(name), text_of(desc), known, pg_id)


def _sizes(counts: Ints, dimensions: Ints, values: Ints) -> list[tuple[tuple[int, ...], ...]]:
    for column, total in ((counts, len(dimensions)), (dimensions, len(values))):
        if len(column) and int(column.min()) < 0:
            raise SummaryDamaged("sizes of a negative number of dimensions")
        if (len(column) and int(column.max()) > total) or int(column.sum()) != total:
            raise SummaryDamaged("its sizes are not whole")
    numbers = values.tolist()
    shapes: list[tuple[int, ...]] = []
    at = 0
    for count in dimensions.tolist():
        shapes.append(tuple(numbers[at : at + count]))
        at += count
    found: list[tuple[tuple[int, ...], ...]] = []
    at = 0
    for count in counts.tolist():
        found.append(tuple(shapes[at : at + count]))
        at += count
    return found


def text_of(value: Any, most: int = MAX_NAME) -> str:
    """A text of the header. Raises SummaryDamaged for anything else, and for more than `most` characters."""
    if not isinstance(value, str) or len(value) > most:
        raise SummaryDamaged(f"{str(value)[:40]!r} stands where a name should")
    return value
