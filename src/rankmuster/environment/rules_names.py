"""Contradictions of names and values: not read, read twice, misspelt, no number."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from rankmuster.environment.contradiction import Contradiction, Severity, Subject
from rankmuster.environment.nccl_names import REAL_NCCL_NAMES
from rankmuster.environment.nccl_table import SUBSYSTEM_SINCE
from rankmuster.environment.table import TABLE
from rankmuster.environment.torch_table import OTHER_TORCH_NAMES
from rankmuster.environment.values import problem, quoted
from rankmuster.environment.variable import Kind, Reader, Variable
from rankmuster.environment.version import Version, at_least, written

CLOSE = 0.86
"""Likeness (difflib) from which a name counts as a misspelt one; two letters of twenty."""
CLOSE_NCCL = 0.9
"""NCCL has hundreds of names that are not in the table; only a slip of one or two letters is meant."""


def spelling(subject: Subject) -> Iterator[Contradiction]:
    """Names that nobody reads."""
    given = subject.given
    for name in sorted({*given.values, *given.unknown}):
        if name in TABLE or name in OTHER_TORCH_NAMES or not name.startswith(("TORCH_", "NCCL_")):
            continue
        ours = name.startswith("TORCH_")
        near = _near(name, CLOSE if ours else CLOSE_NCCL)
        if near and (ours or name not in REAL_NCCL_NAMES):
            yield Contradiction(
                Severity.WARNING,
                "misspelt",
                (name,),
                f"{TABLE[near].reader.value} reads no {name}; {near} is meant, it seems",
                f"rename it to {near}",
            )
        elif ours:
            yield Contradiction(
                Severity.WARNING,
                "unknown_name",
                (name,),
                f"no torch that is known here reads {name}",
                "look the name up for this torch, or remove it",
            )


def _near(name: str, likeness: float) -> str | None:
    # the family decides nothing where the rest is right: TORCH_FR_DUMP_ON_TIMEOUT, NCCL_TRACE_BUFFER_SIZE
    rest = name.removeprefix("TORCH_").removeprefix("NCCL_").removeprefix("FR_")
    if name.startswith("TORCH_") or rest in ("TRACE_BUFFER_SIZE", "DUMP_ON_TIMEOUT", "ENABLE_MONITORING"):
        for family in ("TORCH_NCCL_", "TORCH_FR_", "TORCH_"):
            if family + rest in TABLE:
                return family + rest
    found = difflib.get_close_matches(name, [known for known in TABLE if known != name], 1, likeness)
    return found[0] if found else None


def versions(subject: Subject) -> Iterator[Contradiction]:
    """Names that this version does not read yet, or any more."""
    for row, version in _rows(subject):
        if row.read_by(version):
            continue
        early = row.since is not None and not at_least(version, row.since)
        bound = f"from {written(row.since)} on" if early and row.since else f"until {written(row.until or ())}"
        older = _older(row.name)
        yield Contradiction(
            Severity.WARNING,
            "not_read",
            (row.name,),
            f"{row.reader.value} {written(version)} does not read {row.name}; it is read {bound}",
            f"use {older} with this version" if early and older else "remove it, or use a version that reads it",
        )


def _older(name: str) -> str | None:
    return next((row.name for row in TABLE.values() if row.newer == name), None)


def two_names(subject: Subject) -> Iterator[Contradiction]:
    """An old and a new name that say different things, and old names that have a successor."""
    given = subject.given
    for row, version in _rows(subject):
        newer = row.newer
        if newer is None or (row.newer_since is not None and not at_least(version, row.newer_since)):
            continue
        mine, other = given.of(row.name), given.of(newer)
        if given.has(newer):
            if mine is not None and other is not None and _same(row, mine) != _same(row, other):
                own_copy = row.name == "TORCH_NCCL_TRACE_BUFFER_SIZE"
                effect = (
                    "the ring takes the new name, ProcessGroupNCCL and its pipe the old one"
                    if own_copy
                    else f"{newer} wins"
                )
                yield Contradiction(
                    Severity.ERROR if own_copy else Severity.WARNING,
                    "two_names_differ",
                    (row.name, newer),
                    f"{row.name} is {quoted(mine)} and {newer} is {quoted(other)}; {effect}",
                    "set both to the same value" if own_copy else f"remove {row.name}",
                )
        elif row.name != "TORCH_NCCL_TRACE_BUFFER_SIZE":  # that one is needed beside its successor
            yield Contradiction(
                Severity.NOTE, "old_name", (row.name,), f"{row.name} is the old name of {newer}", f"use {newer}"
            )


def _same(row: Variable, value: str) -> str:
    if row.kind is Kind.FLAG:
        return {"true": "1", "yes": "1", "y": "1", "t": "1"}.get(value.strip().lower(), value.strip().lower())
    return value.strip()


def bad_values(subject: Subject) -> Iterator[Contradiction]:
    """Values that are not what their reader takes."""
    for row, version in _rows(subject):
        value = subject.given.of(row.name)
        wrong = problem(row, value) if value is not None and row.read_by(version) else None
        if wrong is not None:
            yield Contradiction(
                Severity.ERROR if wrong.fatal else Severity.WARNING,
                "bad_value",
                (row.name,),
                f"{row.name} {wrong.what}",
                f"give it a value that is meant: {row.meaning}",
            )
    words = subject.given.of("NCCL_DEBUG_SUBSYS")
    for word in (words or "").lstrip("^").split(","):
        known = SUBSYSTEM_SINCE.get(word.strip().upper())
        if word.strip() and (known is None or not at_least(subject.nccl, known)):
            since = f"; NCCL knows it from {written(known)} on" if known else ""
            yield Contradiction(
                Severity.WARNING,
                "unknown_subsystem",
                ("NCCL_DEBUG_SUBSYS",),
                f"NCCL {written(subject.nccl)} has no subsystem {quoted(word.strip())}, and says nothing of it{since}",
                "write it as NCCL does: " + ", ".join(name for name, at in SUBSYSTEM_SINCE.items() if at == (2, 18)),
            )


def _rows(subject: Subject) -> Iterator[tuple[Variable, Version]]:
    """The table's rows that are set, each with the version of its reader."""
    given = subject.given
    for name in sorted({*given.values, *given.unknown} & TABLE.keys()):
        row = TABLE[name]
        yield row, {Reader.TORCH: subject.torch, Reader.NCCL: subject.nccl}.get(row.reader, (999,))


RULES = (spelling, versions, two_names, bad_values)
