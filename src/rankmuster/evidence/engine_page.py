"""Prometheus text pages of a serving engine -> `EnginePage`.

Own line split instead of `prometheus_client.parser`: that one reads every bucket of every histogram (12 ms for a real
vLLM page of 1100 lines, plus 45 ms of import) and gives up the page at its first bad line, where a failing server's
last page is often cut. Format: https://prometheus.io/docs/instrumenting/exposition_formats/.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from rankmuster.evidence import engine_table as table
from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_prefix import decimal
from rankmuster.model.engine import EnginePage, EngineStream
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.stamp import Stamp, unix

SHAPE_SHARE = 0.6
"""Share of the first lines that must look like exposition text; the rest may be HTTP headers or damage."""

SINGLE = "0"
"""The key of the only engine of a page whose series name none."""

WHOLE = ""
"""The key of what a page with several engines counts for all of them together."""

_MILLISECONDS = 1e11
"""Unix times above this are in milliseconds (as seconds they would be past the year 5000)."""
_PLAUSIBLE = (1e9, 4e9)

_SHAPE = re.compile(r"# (?:HELP|TYPE|UNIT|EOF)|[A-Za-z_:][\w:]*(?:\{[^\n]*\})? +(?:[-+]?[\d.]+|NaN|[-+]?Inf)")
_SERIES = re.compile(rb"^(?:# (?:HELP|TYPE) )?" + table.PREFIX + rb"[a-z]", re.MULTILINE)
_NAME = re.compile(r"[ \t]*([A-Za-z_:][\w:]*)[ \t]*")
_LABEL = re.compile(r'[\s,]*([A-Za-z_]\w*)\s*=\s*"([^"\\]*(?:\\.[^"\\]*)*)"')
_CLOSE = re.compile(r"[\s,]*\}")

_Cell = tuple[str | None, table.Role, str]


@dataclass(slots=True)
class _Page:
    """Samples of one engine's series: cell -> remaining labels -> value."""

    cells: dict[_Cell, dict[tuple[tuple[str, str], ...], float]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, engine: table.Engine, series: table.Series, labels: Mapping[str, str], value: float) -> None:
        key = "/".join(labels[k] for k in engine.keys if labels.get(k)) or None
        entry = series.name if series.split is None else f"{series.name}{{{labels.get(series.split, '')}}}"
        apart = {*engine.keys, *table.RANK_LABELS, series.split}
        rest = tuple(sorted((k, v) for k, v in labels.items() if k not in apart))
        cell = self.cells[(key, series.role, entry)]
        cell[rest] = max(value, cell.get(rest, value))

    def streams(self) -> tuple[EngineStream, ...]:
        keys = sorted({key for key, _, _ in self.cells if key is not None})
        home = {key: key for key in keys}
        whole = keys[0] if len(keys) == 1 else (WHOLE if keys else SINGLE)
        sums: dict[str, dict[table.Role, dict[str, float]]] = {}
        for (key, role, entry), parts in self.cells.items():
            stream = sums.setdefault(whole if key is None else home[key], {})
            stream.setdefault(role, {})[entry] = sum(parts.values())
        return tuple(_stream(key, roles) for key, roles in sorted(sums.items()))


def _stream(key: str, roles: Mapping[table.Role, Mapping[str, float]]) -> EngineStream:
    running, elsewhere = roles.get(table.Role.RUNNING), roles.get(table.Role.ELSEWHERE, {})
    waiting = (*roles.get(table.Role.WAITING, {}).values(), *elsewhere.values())
    return EngineStream(
        key=key,
        running=sum(running.values()) if running else None,
        waiting=sum(waiting) if waiting else None,
        steps=dict(roles.get(table.Role.STEP, {})),
        ends=dict(roles.get(table.Role.END, {})),
        gauges=dict(roles.get(table.Role.GAUGE, {})),
        paused=any(value > 0 for value in roles.get(table.Role.PAUSED, {}).values()),
        elsewhere=sum((*elsewhere.values(), *roles.get(table.Role.DEFERRED, {}).values())),
    )


def fields_of(line: str, cut: int) -> tuple[dict[str, str], list[str]] | None:
    """Labels, and the fields after them (value, perhaps a time); None when the line is damaged."""
    labels: dict[str, str] = {}
    if line.startswith("{", cut):
        at = cut + 1
        while (label := _LABEL.match(line, at)) is not None:
            labels[label.group(1)] = label.group(2)
            at = label.end()
        close = _CLOSE.match(line, at)
        if close is None:
            return None
        cut = close.end()
    return labels, line[cut:].split("#", 1)[0].split()


def _believed_uncut(line: str) -> bool:
    """Whether a last line without its line end is whole: a count that Python wrote, `2400.0`, cannot have been cut."""
    return line.rstrip().endswith(".0")


def recognises(blob: Blob) -> bool:
    """Exposition text that names at least one engine's series."""
    lines = [line for line in text.head(blob.data).splitlines()[:60] if line.strip()]
    shaped = sum(1 for line in lines if _SHAPE.match(line))
    return shaped > SHAPE_SHARE * len(lines) and _SERIES.search(blob.data) is not None


def read(blob: Blob, names_known: table.Index = table.BY_NAME) -> Reading:
    """One `EnginePage` per engine that the page speaks of (ordinarily one), by the names that are known."""
    pages: dict[str, _Page] = {}
    bad: list[str] = []
    known, stamp = 0, 0.0
    ended = blob.data.endswith((b"\n", b"\r"))
    # Only the table's lines are parsed: a real page is mostly histogram buckets.
    wanted = [(number, line) for number, line in text.lines(blob.data) if line and line[0] != "#"]
    for position, (number, line) in enumerate(wanted, 1):
        name = _NAME.match(line)
        entries = names_known.get(name.group(1)) if name else None
        if name is None or not entries:
            continue
        cut = name.end()
        split = fields_of(line, cut)
        value = decimal(split[1][0]) if split and split[1] else None
        cut_off = position == len(wanted) and not ended and not _believed_uncut(line)
        if split is None or value is None or cut_off or value < 0:
            bad.append(f"line {number}: {line[:80]!r}")
            continue
        labels, fields = split
        if not math.isfinite(value) or any(labels.get(part) for part in table.PART_LABELS):
            continue
        for engine, series in entries:
            if not series.only or labels.get(series.split or "") in series.only:
                pages.setdefault(engine.name, _Page()).add(engine, series, labels, value)
                known += 1
        if len(fields) > 1:
            stamp = max(stamp, _seconds(fields[1]))
    time = unix(stamp) if stamp else names.time_of(blob.path)
    return Reading(_pages(blob.path, time, pages), _problems(blob.path, known, bad), known)


def _seconds(digits: str) -> float:
    value = decimal(digits) or 0.0
    seconds = value / 1000 if value > _MILLISECONDS else value
    return seconds if _PLAUSIBLE[0] < seconds < _PLAUSIBLE[1] else 0.0


def _pages(path: str, time: Stamp | None, pages: Mapping[str, _Page]) -> tuple[EnginePage, ...]:
    return tuple(EnginePage(path, time, engine, page.streams()) for engine, page in pages.items())


def _problems(path: str, known: int, bad: list[str]) -> tuple[Problem, ...]:
    if bad:
        message = f"{len(bad)} sample(s) of this metrics page are damaged ({bad[0]}); {known} others were used"
        return (Problem(ProblemKind.DAMAGED, path, message),)
    if not known:
        message = "a metrics page of a serving engine, but with no series that tells load or progress"
        return (Problem(ProblemKind.UNREAD, path, message),)
    return ()


READER = Reader("engine page", Plane.ENGINE, ReaderKind.DOCUMENT, recognises, read)
