"""From the `env` of a container as it is to the one with the approved settings: operations on single entries. Pure.

Entries that are none of communication are neither moved nor written: their values may be secrets, and somebody else's.
Each operation is preceded by a test of the entry's name, so that a patch of another list does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rankmuster.environment.given import is_communication
from rankmuster.gate.deployed import references
from rankmuster.model.release import Setting


class NotInOrder(Exception):
    """A value refers to a variable that would stand after it; the message says which."""


Entry = Mapping[str, Any]
Operation = Mapping[str, Any]


def env_operations(entries: Sequence[Entry], settings: Sequence[Setting], path: str, *, there: bool) -> list[Operation]:
    """`entries`: of now. `path`: of the list; `there`: whether it is one. Empty where nothing differs. Raises
    NotInOrder."""
    wanted = [_entry(one) for one in settings]
    if not there:
        return [{"op": "add", "path": path, "value": wanted}] if wanted else []
    ours = frozenset(one.name for one in settings)
    target = _target(entries, wanted)
    _must_resolve(target)
    return _between(entries, target, path, ours)


def _entry(one: Setting) -> dict[str, Any]:
    if one.reference is not None:
        return {"name": one.name, **json.loads(one.reference)}
    return {"name": one.name, "value": one.value}


def _same(one: Entry, other: Entry) -> bool:
    """A value of none and an empty one are the same to Kubernetes."""
    return _plain(one) == _plain(other)


def _plain(one: Entry) -> dict[str, Any]:
    found = {key: value for key, value in one.items() if value is not None}
    return found if "valueFrom" in found else {"value": "", **found}


def _target(entries: Sequence[Entry], wanted: Sequence[Entry]) -> list[Entry]:
    """The list as it is to be. Approved entries stay where they are if they are in the approved order; else all of them
    stand together where the first one is now."""
    names = [str(one["name"]) for one in wanted]
    by_name = dict(zip(names, wanted, strict=True))
    kept = [one for one in entries if one["name"] in by_name or not is_communication(str(one["name"]))]
    order = [str(one["name"]) for one in kept if one["name"] in by_name]
    if order != [name for name in names if name in order]:
        first = next(index for index, one in enumerate(kept) if one["name"] in by_name)
        others = [one for one in kept if one["name"] not in by_name]
        before = sum(one["name"] not in by_name for one in kept[:first])
        return [*others[:before], *wanted, *others[before:]]
    target: list[Entry] = [
        one if one["name"] not in by_name or _same(one, by_name[str(one["name"])]) else by_name[str(one["name"])]
        for one in kept
    ]
    for number, name in enumerate(names):
        if name in order:
            continue
        # after the one that stood before it when it was approved
        earlier = names[number - 1] if number else None
        at = next((index + 1 for index, one in enumerate(target) if one["name"] == earlier), None)
        target.insert(at if at is not None else _last_referred(target, by_name[name]), by_name[name])
    return target


def _last_referred(target: Sequence[Entry], entry: Entry) -> int:
    """Behind everything that it refers to; at the head where that is nothing."""
    names = references(str(entry.get("value") or ""))
    return max((index + 1 for index, one in enumerate(target) if one["name"] in names), default=0)


def _must_resolve(target: Sequence[Entry]) -> None:
    places = {str(one["name"]): index for index, one in enumerate(target)}
    for index, one in enumerate(target):
        for name in references(str(one.get("value") or "")):
            if places.get(name, -1) > index:
                raise NotInOrder(
                    f"{one['name']} refers to {name}, which would stand after it, and Kubernetes would leave the "
                    f"reference as it is: put {name} before it, and try again"
                )


def _between(entries: Sequence[Entry], target: Sequence[Entry], path: str, ours: frozenset[str]) -> list[Operation]:
    found: list[Operation] = []
    now = list(entries)
    stay = _staying(now, target, ours)
    for index in range(len(now) - 1, -1, -1):
        if index not in stay:
            found += [_test(path, index, now[index]), {"op": "remove", "path": f"{path}/{index}"}]
            del now[index]
    for index, one in enumerate(target):
        if index < len(now) and now[index]["name"] == one["name"]:
            if not _same(now[index], one):
                found += [_test(path, index, now[index]), {"op": "replace", "path": f"{path}/{index}", "value": one}]
                now[index] = one
            continue
        found.append({"op": "add", "path": f"{path}/{index}", "value": one})
        now.insert(index, one)
    return found


def _staying(now: Sequence[Entry], target: Sequence[Entry], ours: frozenset[str]) -> set[int]:
    """Indexes of entries that are not taken away: those of others, and approved ones whose order is the target's."""
    names = [str(one["name"]) for one in target]
    found: set[int] = set()
    position = -1
    for index, one in enumerate(now):
        at = names.index(str(one["name"])) if one["name"] in names else None
        if at is None:
            continue
        if one["name"] not in ours or at > position:
            found.add(index)
            position = max(position, at)
    return found


def _test(path: str, index: int, entry: Entry) -> Operation:
    return {"op": "test", "path": f"{path}/{index}/name", "value": entry["name"]}
