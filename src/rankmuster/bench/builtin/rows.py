"""A rank's row of numbers -> a measurement, with bandwidths and spread as nccl-tests defines them."""

from __future__ import annotations

from rankmuster.bench.builtin.heard import Plain
from rankmuster.model.benchmark import Cell, Measurement, Operation, Spread


def measurement_of(row: Plain, ranks: int) -> Measurement | None:
    """None for a row that cannot be one."""
    try:
        cell = Cell(
            Operation(row["operation"]), int(row["size"]), str(row["dtype"]), bool(row["in_place"]), bool(row["graph"])
        )
        time_us, wrong, moved = float(row["time_us"]), int(row["wrong"]), int(row["moved"])
        each = tuple(float(value) for value in row["iterations_us"])
        of_ranks = tuple(float(value) for value in row["ranks_us"])
    except (KeyError, TypeError, ValueError):
        return None
    if not time_us > 0:
        return None
    algbw = moved / time_us / 1000  # of the bytes that ranks share evenly; the cell has the size that was asked for
    busbw = algbw * cell.operation.bus_factor(ranks)
    return Measurement(cell, time_us, algbw, busbw, wrong, spread(each), each, of_ranks)


def spread(values: tuple[float, ...]) -> Spread | None:
    """Nearest-rank percentiles, and the coefficient of variation of the population, as nccl-tests' -I gives them."""
    if not values:
        return None
    ordered, count = sorted(values), len(values)
    mean = sum(ordered) / count
    variance = sum((value - mean) ** 2 for value in ordered) / count
    return Spread(
        min_us=ordered[0],
        max_us=ordered[-1],
        p50_us=ordered[(count - 1) // 2],
        p99_us=ordered[-(-99 * count // 100) - 1],
        cv_percent=round(100 * variance**0.5 / mean, 3) if mean > 0 else None,
    )
