"""The record of a run: a hash over all of its content, which the history gives back as it took it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from rankmuster.model.benchmark import AlgorithmChoice, HistoryRun, HistoryValue
from rankmuster.model.digest import ascii_digest
from rankmuster.store.plain import VALUE_NUMBERS, sound


def with_record(run: HistoryRun) -> HistoryRun:
    """The run as the tables hold it, with the record of that: whoever reads it later makes the same one."""
    kept = as_kept(run)
    return replace(kept, record=record_of(kept))


def record_of(run: HistoryRun) -> str:
    """sha256 over the run's canonical content, without `record` itself. Raises ValueError where a number is none."""
    content = asdict(run)
    del content["record"]
    return ascii_digest(content)


def as_kept(run: HistoryRun) -> HistoryRun:
    """Texts that UTF-8 can hold, of bounded length, and numbers as the columns have them."""
    return replace(
        run,
        host=None if run.host is None else sound(run.host),
        tool=sound(run.tool),
        reason=sound(run.reason),
        started_at=float(run.started_at),
        settings=tuple(sorted((sound(name), sound(value)) for name, value in run.settings)),
        choices=tuple(_choice(one) for one in run.choices),
        values=tuple(_value(one) for one in run.values),
    )


def _choice(one: AlgorithmChoice) -> AlgorithmChoice:
    return replace(one, operation=sound(one.operation), algorithm=sound(one.algorithm), protocol=sound(one.protocol))


def _value(one: HistoryValue) -> HistoryValue:
    numbers: dict[str, Any] = {
        name: None if (number := getattr(one, name)) is None else float(number) + 0.0 for name in VALUE_NUMBERS
    }
    return replace(one, cell=replace(one.cell, dtype=sound(one.cell.dtype)), **numbers)
