"""A step's sizes as what nccl-tests can be asked for: from a size to a size, by a factor or by a number of bytes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model.benchmark import Step


@dataclass(frozen=True, slots=True)
class Series:
    """`sizes`: all of them, rising. `options`: nccl-tests' own for exactly these."""

    sizes: tuple[int, ...]
    options: tuple[str, ...]


def series_of(sizes: Sequence[int]) -> tuple[Series, ...]:
    """As few series as sizes taken from the left allow; each is a process of its own."""
    found: list[Series] = []
    rest = tuple(sizes)
    while rest:
        count = max(_geometric(rest), _arithmetic(rest))
        found.append(_series(rest[:count]))
        rest = rest[count:]
    return tuple(found)


def _series(sizes: tuple[int, ...]) -> Series:
    bounds = ("-b", str(sizes[0]), "-e", str(sizes[-1]))
    if len(sizes) == 1:
        return Series(sizes, (*bounds, "-f", "2"))
    if _geometric(sizes) == len(sizes):
        return Series(sizes, (*bounds, "-f", str(sizes[1] // sizes[0])))
    return Series(sizes, (*bounds, "-i", str(sizes[1] - sizes[0])))


def _geometric(sizes: tuple[int, ...]) -> int:
    """How many of the first sizes are each the same whole multiple of the one before."""
    if len(sizes) < 2 or sizes[1] % sizes[0]:
        return 1
    factor = sizes[1] // sizes[0]
    count = 2
    while count < len(sizes) and sizes[count] == sizes[count - 1] * factor:
        count += 1
    return count


def _arithmetic(sizes: tuple[int, ...]) -> int:
    """How many of the first sizes are each the same number of bytes larger than the one before."""
    if len(sizes) < 2:
        return 1
    step = sizes[1] - sizes[0]
    count = 2
    while count < len(sizes) and sizes[count] - sizes[count - 1] == step:
        count += 1
    return count


def options_of(step: Step, series: Series, gpus: int, known: frozenset[str]) -> tuple[str, ...]:
    """nccl-tests' options for one series. `known`: optional ones that this version has.

    A graph holds some iterations and is launched until there are as many as were asked for; with it the version's
    per-iteration times are not to be had.
    """
    iterations: tuple[str, ...] = ("-n", str(step.iterations))
    if step.graph:
        held = min(step.iterations, GRAPH_ITERATIONS)
        iterations = ("-n", str(held), "-G", str(-(-step.iterations // held)))
    timed = ("-I", "1") if "-I" in known and not step.graph else ()
    return (*series.options, "-g", str(gpus), "-w", str(step.warmup), *iterations, "-d", step.dtype, "-c", "1", *timed)


GRAPH_ITERATIONS = 20
"""Operations captured in one graph: a decode step of a large model has more, and a graph of 20 hides the launch."""
