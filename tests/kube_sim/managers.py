"""metadata.managedFields: who has set which fields, kept up to date by every write."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_sim.fieldsets import Fields, decoded, differing, encoded, fields_of
from kube_sim.shapes import Shape

BEFORE = "before-first-apply"
"""Whose what was there before anything was kept is."""


@dataclass(frozen=True, slots=True)
class Manager:
    """`operation`: Apply or Update. `subresource`: through which it writes."""

    name: str
    operation: str
    subresource: str = ""
    api_version: str = "v1"

    def told(self, time: str | None) -> str:
        """As conflicts name it."""
        words = f'"{self.name}"' + (f' with subresource "{self.subresource}"' if self.subresource else "")
        if self.operation == "Update":
            words += f" using {self.api_version}" + (f" at {time}" if time else "")
        return words


@dataclass(frozen=True, slots=True)
class Owned:
    fields: Fields
    time: str | None


Owners = dict[Manager, Owned]


def owners_of(obj: Mapping[str, Any]) -> Owners:
    """As the object has them."""
    found: Owners = {}
    for one in (obj.get("metadata") or {}).get("managedFields") or ():
        manager = Manager(
            one.get("manager", ""), one["operation"], one.get("subresource", ""), one.get("apiVersion", "v1")
        )
        found[manager] = Owned(decoded(one.get("fieldsV1") or {}), one.get("time"))
    return found


def rows(owners: Owners) -> list[dict[str, Any]]:
    """metadata.managedFields; who owns nothing is left out."""
    made = []
    for manager, owned in owners.items():
        if not owned.fields:
            continue
        made.append(
            {
                "manager": manager.name,
                "operation": manager.operation,
                "apiVersion": manager.api_version,
                **({"time": owned.time} if owned.time else {}),
                "fieldsType": "FieldsV1",
                "fieldsV1": encoded(owned.fields),
                **({"subresource": manager.subresource} if manager.subresource else {}),
            }
        )
    return made


def after_update(
    before: Mapping[str, Any] | None, after: Mapping[str, Any], manager: Manager, shape: Shape, now: str
) -> Owners:
    """A write that is no apply: what it changed is its own from now on, and nobody else's."""
    owners = owners_of(before or {})
    changed, removed = differing(before or {}, after, shape) if before else (fields_of(after, shape), frozenset())
    if not changed and not removed:
        return owners
    kept = {one: Owned(owned.fields - changed - removed, owned.time) for one, owned in owners.items() if one != manager}
    own = owners[manager].fields if manager in owners else frozenset()
    kept[manager] = Owned((own | changed) - removed, now)
    return kept
