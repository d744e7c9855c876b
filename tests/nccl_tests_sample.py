"""Output in the shapes that nccl-tests has had, made from given times: what the tests of reading and running share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

TYPES = {"float": 4, "bfloat16": 2, "half": 2}
WHOLE = ("all_reduce", "broadcast", "reduce", "sendrecv")


@dataclass(frozen=True)
class Shape:
    """One age of the tool. `columns`: of `redop`, `root`, where they do not always stand; `mark`: of correctness."""

    version: str | None
    redop: bool = True
    root: bool = True
    mark: str = "#wrong"
    group: bool = True


OLD = Shape(None, mark="error", group=False)  # 2.0 to 2.12
MIDDLE = Shape(None)  # 2.13 to 2.17.5
NEW = Shape("2.19.6")


def factor(operation: str, ranks: int) -> float:
    if operation == "all_reduce":
        return 2 * (ranks - 1) / ranks
    return (ranks - 1) / ranks if operation in ("all_gather", "reduce_scatter", "alltoall") else 1.0


def redop_of(operation: str) -> str:
    return "none" if operation in ("all_gather", "alltoall", "broadcast") else "sum"


def root_of(operation: str) -> int:
    return 0 if operation in ("broadcast", "reduce") else -1


def count_of(operation: str, size: int, ranks: int, dtype: str) -> int:
    """Elements, of the whole or of one rank's part of it."""
    return size // TYPES[dtype] // (1 if operation in WHOLE else ranks)


def columns(operation: str, shape: Shape) -> tuple[bool, bool]:
    """(redop, root): up to 2.12 a column stood only where the operation has it."""
    if shape is OLD:
        return operation in ("all_reduce", "reduce_scatter", "reduce", "alltoall"), operation in ("broadcast", "reduce")
    return shape.redop, shape.root


def row(
    operation: str,
    size: int,
    time: float,
    *,
    ranks: int = 8,
    dtype: str = "float",
    shape: Shape = NEW,
    wrong: str = "0",
    inside: str | None = None,
    timed: bool = False,
) -> str:
    """One row; both halves take the same time. `inside`: correctness of the in-place half."""
    count = count_of(operation, size, ranks, dtype)
    algbw = size / time / 1000
    busbw = algbw * factor(operation, ranks)
    redop, root = columns(operation, shape)
    begin = f"{size:12d}  {count:12d}  {dtype:>8s}"
    if redop:
        begin += f"  {'' if shape is OLD and operation == 'alltoall' else redop_of(operation):>6s}"
    if root:
        begin += f"  {root_of(operation):6d}"
    halves = []
    for mark in (wrong, inside if inside is not None else wrong):
        half = f"  {time:7.2f}  {algbw:6.2f}  {busbw:6.2f}  {mark:>6s}"
        if timed:
            half += f"  {time * 0.9:7.2f}  {time * 1.5:7.2f}  {time * 1.4:7.2f}  {5.25:7.2f}"
        halves.append(half)
    return begin + "".join(halves)


def head(operation: str, shape: Shape = NEW, *, timed: bool = False) -> str:
    redop, root = columns(operation, shape)
    begin = f"#{'size':>11s}  {'count':>12s}  {'type':>8s}"
    begin += f"  {'redop':>6s}" if redop else ""
    begin += f"  {'root':>6s}" if root else ""
    half = f"  {'time':>7s}  {'algbw':>6s}  {'busbw':>6s}  {shape.mark:>6s}"
    if timed:
        half += f"  {'i_min':>7s}  {'i_max':>7s}  {'i_p99':>7s}  {'i_cv%':>7s}"
    return begin + half * 2


def time_of(size: int) -> float:
    """Microseconds that an operation takes where nothing else is asked for."""
    return 10 + size / 300_000


def average(operation: str, ranks: int, sizes: Sequence[int], times: Sequence[float] | None = None) -> float:
    """Bus bandwidth over all rows."""
    taken = times if times is not None else [time_of(size) for size in sizes]
    rates = [size / time / 1000 * factor(operation, ranks) for size, time in zip(sizes, taken, strict=True)]
    return sum(rates) / len(rates)


def output(
    operation: str = "all_reduce",
    *,
    ranks: int = 8,
    sizes: Sequence[int] = (1024, 2048, 4096, 8192),
    times: Sequence[float] | None = None,
    dtype: str = "float",
    shape: Shape = NEW,
    wrong: str = "0",
    inside: str | None = None,
    timed: bool = False,
    host: str = "node01",
    hosts: int = 1,
    settings: str | None = None,
    footer: bool = True,
    factor_of: int = 2,
    graph: int = 0,
) -> str:
    """A whole output, as `stdout` of one run."""
    validation = 0 if wrong == "N/A" else 1
    lines: list[str] = []
    if shape.version is not None:
        lines.append(f"# nccl-tests version {shape.version} nccl-headers=22809 nccl-library=22809")
        lines.append(f"# Collective test starting: {operation}_perf")
    lines.append(
        settings
        if settings is not None
        else f"# nThread 1 nGpus {ranks // hosts} minBytes {sizes[0]} maxBytes {sizes[-1]} step: {factor_of}(factor) "
        f"warmup iters: 5 iters: 20 agg iters: 1 validation: {validation} graph: {graph}"
    )
    lines += ["#", "# Using devices"]
    for rank in range(ranks):
        group = "Group  0 " if shape.group else ""
        own = host if hosts == 1 else f"node{rank * hosts // ranks:02d}"
        device = rank % (ranks // hosts)
        bus = f"0000:{device + 16:02x}:00" if shape is NEW else f"0x{device + 16:02x}"
        lines.append(
            f"#  Rank {rank:2d} {group}Pid {6400 + rank:6d} on {own:>10s} device {device:2d} [{bus}] NVIDIA H200"
        )
    lines += [
        "#",
        f"#{'':40}out-of-place                       in-place          ",
        head(operation, shape, timed=timed),
    ]
    lines.append(
        "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)"
    )
    for place, size in enumerate(sizes):
        time = times[place] if times is not None else time_of(size)
        lines.append(
            row(
                operation,
                size,
                time,
                ranks=ranks,
                dtype=dtype,
                shape=shape,
                wrong=wrong,
                inside=inside,
                timed=timed,
            )
        )
    if footer:
        bad = sum(wrong not in ("0", "N/A") for _ in sizes)
        lines += [
            f"# Out of bounds values : {bad} {'FAILED' if bad else 'OK'}",
            f"# Avg bus bandwidth    : {average(operation, ranks, sizes, times):g} ",
            "#",
        ]
        if shape.version is not None:
            lines += [f"# Collective test concluded: {operation}_perf", "#", ""]
    return "\n".join(lines) + "\n"
