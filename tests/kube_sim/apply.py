"""Server-side apply: what one manager wants, merged into what there is, with conflicts and with removal of what it no
longer wants. The rules are those of structured-merge-diff v4."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from kube_sim.fieldsets import Fields, Path, differing, fields_of, told
from kube_sim.managers import BEFORE, Manager, Owned, Owners, owners_of, rows
from kube_sim.problems import ApiProblem
from kube_sim.shapes import Shape, item_key
from kube_sim.values import copied

Object = dict[str, Any]


def applied(
    live: Object | None, wanted: Mapping[str, Any], manager: Manager, shape: Shape, *, force: bool, now: str
) -> Object:
    """The object as it is to be, with its managedFields. Raises ApiProblem 409 where others own what would change."""
    before: Object = live or {}
    owners = owners_of(before)
    if live is not None and not owners:
        version = str(before.get("apiVersion", "v1"))
        owners[Manager(BEFORE, "Update", "", version)] = Owned(fields_of(before, shape), now)
    want = fields_of(wanted, shape)
    after = joined(before, wanted, shape)
    changed, _ = differing(before, after, shape)
    owners = _without_conflicts(owners, manager, changed & want, force)
    had = owners[manager].fields if manager in owners else frozenset()
    others: set[Path] = set()
    for one, owned in owners.items():
        if one != manager:
            others |= owned.fields
    after = without(after, _prunable(had - want, others, want), shape)
    same = manager in owners and owners[manager].fields == want and before and not _differ(before, after)
    owners[manager] = Owned(want, owners[manager].time if same else now)
    after.setdefault("metadata", {})["managedFields"] = rows(owners)
    return after


def _differ(before: Mapping[str, Any], after: Mapping[str, Any]) -> bool:
    return bare(before) != bare(after)


def bare(obj: Mapping[str, Any]) -> Object:
    """Without what a write that changes nothing would change."""
    metadata = {
        key: value
        for key, value in (obj.get("metadata") or {}).items()
        if key not in ("managedFields", "resourceVersion", "generation")
    }
    return {**obj, "metadata": metadata}


def _prunable(gone: Fields, others: set[Path], want: Fields) -> Fields:
    """Of what a manager no longer wants, what nobody else has anything in."""
    return frozenset(
        path
        for path in gone
        if path not in others
        and not any(other[: len(path)] == path for other in others)
        and not any(one[: len(path)] == path for one in want)
    )


def _without_conflicts(owners: Owners, manager: Manager, changed: Fields, force: bool) -> Owners:
    found = []
    kept: Owners = {}
    for one, owned in owners.items():
        both = owned.fields & changed
        if one != manager and both:
            found += [(one.told(owned.time), path) for path in sorted(both, key=told)]
            kept[one] = Owned(owned.fields - both, owned.time)
        else:
            kept[one] = owned
    if not found or force:
        return kept
    raise _refusal(found)


def _refusal(found: list[tuple[str, Path]]) -> ApiProblem:
    if len(found) == 1:
        message = f"Apply failed with 1 conflict: conflict with {found[0][0]}: {told(found[0][1])}"
    else:
        parts = []
        for who in sorted({one for one, _ in found}):
            fields = [told(path) for one, path in found if one == who]
            parts.append(f"conflicts with {who}:" + "".join(f"\n- {field}" for field in fields))
        message = f"Apply failed with {len(found)} conflicts: " + "\n".join(parts)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {who}", "field": told(path)}
        for who, path in found
    ]
    return ApiProblem(409, "Conflict", message, details={"causes": causes})


def joined(value: Any, wanted: Any, shape: Shape) -> Any:
    """`wanted` over `value`, with lists merged as their schema says."""
    if isinstance(wanted, Mapping) and not shape.atomic:
        found = dict(value) if isinstance(value, Mapping) else {}
        for key, one in wanted.items():
            found[key] = joined(found.get(key), one, shape.field(key))
        return found
    if isinstance(wanted, list) and shape.keys:
        return _joined_items(value, wanted, shape)
    if isinstance(wanted, list) and shape.is_set:
        items = list(value or ())
        return items + [copied(one) for one in wanted if one not in items]
    return copied(wanted)


def _joined_items(value: Any, wanted: list[Any], shape: Shape) -> list[Any]:
    items = [copied(one) for one in value or ()]
    known = {item_key(shape, one): place for place, one in enumerate(items)}
    seen = set()
    for one in wanted:
        key = item_key(shape, one)
        if key is None or key in seen:
            why = (
                "associative list with keys has an element that omits key field" if key is None else "duplicate entries"
            )
            raise ApiProblem(500, "InternalError", f"failed to create typed patch object: {why}: {json.dumps(one)}")
        seen.add(key)
        if key in known:
            items[known[key]] = joined(items[known[key]], one, shape.item())
        else:
            items.append(copied(one))
    return items


def without(obj: Object, fields: Fields, shape: Shape) -> Object:
    """The object less these fields; maps that are empty afterwards go too."""
    found: Object = copied(obj)
    done: set[Path] = set()
    for path in sorted(fields, key=len):
        if not any(path[:most] in done for most in range(1, len(path))):
            _remove(found, path, shape)
            done.add(path)
    return found


def _remove(value: Any, path: Path, shape: Shape) -> None:
    kind, what = path[0]
    if kind == "f":
        if not isinstance(value, dict) or what not in value:
            return
        below = shape.field(what)
        if len(path) == 1:
            del value[what]
            return
        _remove(value[what], path[1:], below)
        if value[what] in ({}, []):
            del value[what]
    elif isinstance(value, list):
        for place, one in enumerate(value):
            fits = json.dumps(one) == what if kind == "v" else item_key(shape, one) == what
            if fits and len(path) == 1:
                del value[place]
                return
            if fits:
                _remove(one, path[1:], shape.item())
                return
