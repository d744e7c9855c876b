"""A table of nccl-tests' text -> a benchmark run: its measurements, who took part, and how it ended."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

from rankmuster.evidence.nccl_tests_end import Facts, ending
from rankmuster.evidence.nccl_tests_factor import STEP, halves, odd_count, odd_one
from rankmuster.evidence.nccl_tests_group import Group, group
from rankmuster.evidence.nccl_tests_operation import PROGRAMS, of_name, of_program, possible
from rankmuster.evidence.nccl_tests_rows import Placement, Row
from rankmuster.evidence.nccl_tests_sizes import Series, missing
from rankmuster.evidence.nccl_tests_text import Table
from rankmuster.model.benchmark import BenchmarkRun, Cell, Measurement, Operation, Spread

TOOL = "nccl-tests"

RATE_TOLERANCE = 0.02
"""Of size / time against algbw: time is printed with three digits or more (0.5 % at worst), algbw with two decimals."""

DIGITS = 1e-5
"""Of the average, which is printed with six digits (%g)."""

NO_SETTINGS = "the line of settings is missing, so nobody knows which sizes it was started for"

_AVERAGE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,12})?(?:e[+-]?[0-9]{1,3})?)(?![\w.,])")  # a markdown's ` may follow

CPU_TIME = "its times are the host's, of launching alone (-C 1), and say nothing of the links"


def benchmark_run(table: Table, source: str, operation: Operation | None) -> BenchmarkRun:
    """The run. `operation`: what the user says it is of, where the text does not say."""
    rows = table.rows
    found, unusable = _operation(table, source, operation)
    members = Group(len(table.devices) or None)
    if found is not None and rows:
        members = group(table.listed, found, rows)
        unusable = members.contradiction or None
    odd = unsound(rows, found)
    if table.commas:
        unusable = (
            f"{table.commas} rows have decimal commas (41,25): they were written anew under another locale, and "
            "digits may be lost; give the tool's own output, written with LC_ALL=C"
        )
    elif table.header is not None and table.header.cpu:
        unusable = CPU_TIME
    elif odd is not None:
        unusable = f"line {odd[0].line}: {odd[1]}"
    checked = table.settings.validation if table.settings else None
    graph = bool(table.settings and table.settings.graph)
    measured: list[Measurement] = []
    if found is not None and unusable is None:
        for row in rows:
            measured += _measurements(row, found, graph, table, checked)
    state, reason = ending(_facts(table, rows, unusable, members, measured))
    return BenchmarkRun(
        source=source,
        tool=TOOL,
        tool_version=table.version,
        nccl_version=table.nccl,
        started_at=None,
        state=state,
        reason=reason,
        ranks=tuple(table.devices[rank].rank for rank in sorted(table.devices)),
        measurements=tuple(measured),
        command=table.command,
        settings=kept_settings(table.settings.kept if table.settings else (), rows),
        rank_count=members.ranks if members.ranks != len(table.devices) else None,
    )


def kept_settings(said: Iterable[tuple[str, str]], rows: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """What it was started with, and how values were reduced, as `BenchmarkRun.settings` has it."""
    redops = sorted({row.redop for row in rows if row.redop is not None})
    return tuple(sorted([*said, *([("redop", ",".join(redops))] if redops else [])]))


def _operation(table: Table, source: str, given: Operation | None) -> tuple[Operation | None, str | None]:
    """(the operation, why there is none): as the tool says, as the user does, by command, by name, by the numbers."""
    ranks = table.listed.members if table.listed.whole and table.listed.of_processes else None
    if table.program is not None:
        said = of_program(table.program)
        if said is None:
            return None, f"{table.program} is none of {', '.join(sorted(PROGRAMS))}; its results are not compared"
        if said not in possible(table.rows, table.header, None, claimed=True):
            can_be = possible(table.rows, table.header, ranks)
            return None, contradicted(f"it says that it is {table.program}", can_be)
        return said, None
    can_be = possible(table.rows, table.header, ranks)
    if not table.rows:
        return given, None
    for said, by in (
        (given, "the operation given"),
        (of_program(table.command[0]) if table.command else None, "the command before the table"),
        (of_name(source), "the file's name"),
    ):
        if said is not None and said in can_be:
            return said, None
        if said is not None:
            return None, contradicted(f"{by} says {said.value}", can_be)
    if len(can_be) == 1:
        return next(iter(can_be)), None
    fitting = ", ".join(sorted(one.value for one in can_be))
    return None, (
        "neither the text nor the file's name says which operation was measured"
        + (f"; the numbers fit {fitting}" if 1 < len(can_be) < len(Operation) else "")
        + "; say it with --operation"
    )


def contradicted(claim: str, can_be: Iterable[Operation]) -> str:
    """Why a claim is not believed."""
    fitting = ", ".join(sorted(one.value for one in can_be)) or "no operation known"
    return f"{claim}, but the table's numbers and columns fit {fitting}"


def unsound(rows: Sequence[Row], operation: Operation | None) -> tuple[Row, str] | None:
    """The first row whose numbers contradict each other or the other rows', and how; None where all agree."""
    odd = next((row for row in rows if not plausible(row)), None)
    if odd is not None:
        return odd, "size / time is not algbw, so digits of the row were lost or changed"
    odd = odd_one(rows)
    if odd is not None:
        return odd, "its busbw / algbw is not that of the other rows, so digits of the row were lost or changed"
    odd = odd_count(operation, rows) if operation is not None else None
    if odd is not None:
        return odd, f"{odd.count} elements of {odd.dtype} do not make {odd.size} bytes, so the row was changed"
    return None


def average_gap(said: float, rows: Sequence[Row]) -> str:
    """What an average that is not the rows' says of them; "" where it is theirs as far as digits go."""
    values = [half.busbw for half in halves(rows)]
    if not values or any(row.cut for row in rows) or not all(map(math.isfinite, values)):
        return ""
    own = sum(values) / len(values)
    if math.isfinite(said) and abs(said - own) <= STEP + DIGITS * own:
        return ""
    return f"'Avg bus bandwidth' is {said:g} GB/s, and that of its rows {own:.6g}: rows are missing or were changed"


def plausible(row: Row) -> bool:
    """Whether each half's bandwidth is its size over its time, and busbw no more than twice that."""
    return all(_plausible(row.size, half) for half in (row.out_of_place, row.in_place) if half is not None)


def _plausible(size: int, half: Placement) -> bool:
    if not (math.isfinite(half.time_us) and math.isfinite(half.algbw) and math.isfinite(half.busbw)):
        return False
    if half.time_us <= 0:
        return False
    rate = size / half.time_us / 1000
    off = abs(rate - half.algbw)
    return off <= max(STEP, RATE_TOLERANCE * rate) and half.busbw <= 2 * half.algbw + 2 * STEP


def _measurements(
    row: Row, operation: Operation, graph: bool, table: Table, checked: bool | None
) -> Iterable[Measurement]:
    """Both halves; a row of no bytes measures nothing (more ranks than elements)."""
    if row.size == 0:
        return
    for in_place, half in ((False, row.out_of_place), (True, row.in_place)):
        if half is None:
            continue
        cell = Cell(operation, row.size, row.dtype, in_place, graph)
        spread = None
        if half.iterations is not None:
            least, most, p99, cv = (value if math.isfinite(value) else None for value in half.iterations)
            spread = Spread(least, most, None, p99, cv)
        yield Measurement(cell, half.time_us, half.algbw, half.busbw, _wrong(half, table, checked), spread)


def _wrong(half: Placement, table: Table, checked: bool | None) -> int | None:
    """Wrong elements. An old table's `error` is a difference, not a count: with a line that all is well it is none."""
    if checked is False or not math.isfinite(half.wrong):
        return None
    if table.header is not None and "error" in table.header.first:
        return 0 if table.bounds == (0, False) else None
    return int(half.wrong)


def _facts(table: Table, rows: list[Row], unusable: str | None, members: Group, measured: list[Measurement]) -> Facts:
    gaps = [members.gap] if members.gap else []
    notes = [members.note] if members.note else []
    if table.full:
        gaps.append("the text has more rows or ranks than one output has, and what follows was not read")
    if table.unread:
        number, begins = table.unread[0]
        gaps.append(f"line {number}: a row that begins with {begins!r} cannot be read")
    cut = [row for row in rows if row.cut]
    if cut:
        gaps.append(f"line {cut[0].line}: the row of {cut[0].size} bytes is cut")
    series = table.settings.series if table.settings else None
    if series is not None and table.reduced is not None:
        notes.append(f"the GPUs' memory left room for {table.reduced} bytes at most")
        series = Series(series.least, min(series.most, table.reduced), series.factor, series.step)
    gaps += missing(rows, series, members.ranks)
    if rows and series is None:
        gaps.append(NO_SETTINGS)
    if rows and unusable is None and table.average is not None:
        gaps += _average_gaps(table.average, rows)
    if measured and all(one.wrong is None for one in measured):
        notes.append("results were not checked for correctness")
    if table.below_wanted:
        notes.append(f"its average of {table.average} GB/s is below 90 % of NCCL_TESTS_MIN_BW")
    return Facts(
        rows=len(rows) + table.commas + len(table.unread),
        unusable=unusable,
        gaps=tuple(gaps),
        bounds=table.bounds,
        wrong=sum(one.wrong or 0 for one in measured),
        average=table.average is not None,
        concluded=table.concluded,
        failures=tuple(table.failures),
        usage=table.usage,
        notes=tuple(notes),
    )


def _average_gaps(said: str, rows: Sequence[Row]) -> list[str]:
    number = _AVERAGE.match(said)
    if number is None:
        return [f"'Avg bus bandwidth' is {said!r}, which is no number: the line is cut or was changed"]
    found = average_gap(float(number[1]), rows)
    return [found] if found else []
