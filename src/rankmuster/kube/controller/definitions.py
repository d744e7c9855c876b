"""Whether the definitions of our resources in this cluster are ones that this version works with.

A newer version may have given a field another meaning: then nothing is opened, and nothing is ended or fenced, until a
controller of that version runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankmuster.adapters.kube.api import DEFINITIONS, INCIDENTS, POLICIES, Api, Forbidden, Kind, KubeError
from rankmuster.adapters.kube.fields import flag, parts, text
from rankmuster.collect.deadline import Clock, Deadline
from rankmuster.model.kube import SCHEMA, SCHEMA_ANNOTATION
from rankmuster.report.inert import plain

CALL_SECONDS = 10.0

LOOKED_AT = (POLICIES, INCIDENTS)


class Definitions:
    """`look` reads them, for one thread; `newer` says what came of the last look that was answered, to any."""

    def __init__(self, api: Api, clock: Clock) -> None:
        self._api, self._clock = api, clock
        self._newer: dict[Kind, str] = {}

    def look(self) -> str:
        """What could not be read; empty where all could. A role that may not list them says nothing of them."""
        found = {}
        for kind in LOOKED_AT:
            fields = f"metadata.name={kind.plural}.{kind.group}"
            try:
                deadline = Deadline.after(CALL_SECONDS, self._clock)
                listed = self._api.list(DEFINITIONS, None, deadline, fields=fields)
            except Forbidden as error:
                self._newer = {}
                return f"definitions may not be listed, and whether they are of a newer version is not known: {error}"
            except KubeError as error:
                return f"definitions could not be listed: {error}"
            for raw in listed:
                words = objection(kind, raw)
                if words:
                    found[kind] = words
        self._newer = found
        return ""

    def newer(self, kind: Kind = POLICIES) -> str:
        """Why objects of that kind are let alone; empty where they are not. Policies need their incidents."""
        return self._newer.get(kind) or self._newer.get(INCIDENTS, "")


def objection(kind: Kind, raw: Mapping[str, Any]) -> str:
    """Why a definition is not one for this version; empty where it is one. One that does not say is ours."""
    name = f"{kind.plural}.{kind.group}"
    said = text(raw, "metadata", "annotations", SCHEMA_ANNOTATION)
    if said is not None and not (said.isascii() and said.isdecimal() and int(said[:9]) <= SCHEMA):
        return (
            f"the definition {name} has schema {plain(said, 40)}, and this version knows {SCHEMA}: nothing is done "
            "until a controller of that version runs"
        )
    versions = parts(raw, "spec", "versions")
    served = [text(one, "name") or "?" for one in versions if flag(one, "served")]
    if versions and kind.version not in served:
        return (
            f"the definition {name} serves {', '.join(served) or 'no version'}, and not {kind.version}, which this "
            "version knows: nothing is done until a controller of that version runs"
        )
    return ""
