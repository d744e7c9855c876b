"""Evidence as the caller wants its dumps taken: those of one prefix alone, or torchft's with ranks within replicas."""

from __future__ import annotations

import re
from dataclasses import replace

from rankmuster.diagnose.flight_groups import WHOLE
from rankmuster.evidence.bundle import Evidence
from rankmuster.model.flight import FlightDump

_NUMBER = re.compile(r"\d{1,7}")


def of_prefix(evidence: Evidence, prefix: str) -> Evidence:
    """The same with the dumps alone whose name holds `prefix`; the number right behind it is the rank."""
    kept = []
    for dump in evidence.of(FlightDump):
        name = re.split(r"[/!]", dump.source)[-1]
        start = name.find(prefix)
        if start < 0:
            continue
        number = _NUMBER.match(name, start + len(prefix))
        kept.append(replace(dump, rank=int(number.group())) if number else dump)
    return _with(evidence, tuple(kept))


def of_replicas(evidence: Evidence, size: int) -> Evidence:
    """The same where `default_pg` is a replica of `size` ranks whose members are counted within it, as torchft does.

    The members become global ranks: those of the dump's own replica.
    """
    found = []
    for dump in evidence.of(FlightDump):
        if dump.rank is None:
            found.append(dump)
            continue
        first = dump.rank // size * size
        groups = tuple(
            replace(group, members=tuple(first + member for member in group.members))
            if group.desc == WHOLE and group.members
            else group
            for group in dump.columns.groups
        )
        found.append(replace(dump, columns=replace(dump.columns, groups=groups)))
    return _with(evidence, tuple(found))


def _with(evidence: Evidence, dumps: tuple[FlightDump, ...]) -> Evidence:
    return replace(evidence, by_type={**evidence.by_type, FlightDump: dumps})
