"""From the command to its verdict, beside what else reads the same files, in one run; and how that grows with ranks."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from benchmarks.flight import generate, world
from benchmarks.flight.measure import Cost, family_peak_mb, measure
from benchmarks.flight.settings import Fault, FaultKind, Settings, Style, Where
from benchmarks.flight.torch_env import cache_folder

TENSOR, PIPELINE, EXPERT = 8, 4, 8
PER_REPLICA = TENSOR * PIPELINE
PROCESSES = 2

LOADS = "import pickle, sys\nfor path in sys.argv[1:]:\n    with open(path, 'rb') as file:\n        pickle.load(file)"
READS = "import sys\nfor path in sys.argv[1:]:\n    with open(path, 'rb') as file:\n        file.read()"


def job_of(ranks: int) -> Settings:
    """TP 8 x PP 4 x DP, experts over 8, one rank dead, 2000 entries of 30 frames a rank.

    Raises ValueError where `ranks` is no multiple of 32.
    """
    if ranks % PER_REPLICA:
        raise ValueError(f"{ranks} ranks are no multiple of {PER_REPLICA}")
    fault = Fault(FaultKind.DEAD, where=Where.TP)
    return Settings(tp=TENSOR, pp=PIPELINE, dp=ranks // PER_REPLICA, ep=EXPERT, frames=30, fault=fault, seed=1)


def plain_job_of(ranks: int) -> Settings:
    """TP 8 x DP, collectives alone, one rank that stops calling: what torch's analyser reads to its end.

    In the other job it takes the parts of batches for mismatches, and gives a group up after ten.
    """
    fault = Fault(FaultKind.HOST_STOP, where=Where.TP)
    return Settings(tp=TENSOR, dp=ranks // TENSOR, style=Style.SGLANG, gaps=False, frames=30, fault=fault, seed=1)


@contextmanager
def dumps_of(ranks: int, job: Callable[[int], Settings] = job_of) -> Iterator[tuple[Path, int]]:
    """(bundle on disk, bytes of its dumps) of a job of so many ranks."""
    folder = cache_folder() / f"dumps-{ranks}"
    shutil.rmtree(folder, ignore_errors=True)
    made = world.make(job(ranks))
    total = generate.write(made, folder, processes=PROCESSES)
    del made
    try:
        yield folder / "input", total
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def command(folder: Path) -> list[str | Path]:
    """The command that is measured."""
    return [Path(sys.executable).parent / "rankmuster", "flight", folder]


def beside(ranks: int, torch: Path | None, say: Callable[[str], None], *, plain: bool) -> None:
    """One table: the command with and without its native reader, `pickle.load`, a plain read, torch's analyser."""
    with dumps_of(ranks, plain_job_of if plain else job_of) as (folder, total):
        files = sorted((folder / "flight").iterdir())
        runs = 5 if ranks <= 64 else 3
        rows: list[tuple[str, Cost]] = [
            ("`rankmuster flight FOLDER`", measure(command(folder), runs)),
            ("the same, `RANKMUSTER_NATIVE=0`", measure(command(folder), max(1, runs - 2), {"RANKMUSTER_NATIVE": "0"})),
            ("`pickle.load` of the files, one after another", measure([sys.executable, "-c", LOADS, *files], 2)),
            ("reading the bytes", measure([sys.executable, "-c", READS, *files], runs)),
        ]
        if torch is not None:
            theirs: list[str | Path] = [torch / "torchfrtrace", folder / "flight", "--allow-incomplete-ranks"]
            rows.append(("`torchfrtrace FOLDER` of torch 2.13", measure(theirs)))
        whole = family_peak_mb(command(folder), {"RANKMUSTER_NATIVE": "0"})
    own, pickled = rows[0][1], rows[2][1]
    what = "tensor and data parallel, collectives alone" if plain else "with pipelines, batches and experts"
    say(f"### {ranks:,} ranks x 2,000 entries, {total / 1e6:,.0f} MB: {what}\n")
    say("| | seconds | times rankmuster | times `pickle.load` | CPU seconds | peak MB |\n|---|---|---|---|---|---|")
    for name, cost in rows:
        say(
            f"| {name} | {cost.seconds:.2f} | {cost.seconds / own.seconds:.2f} | {cost.seconds / pickled.seconds:.2f} "
            f"| {cost.cpu_seconds:.2f} | {cost.peak_mb:,.0f} |"
        )
    say(f"\nWithout its native reader it reads in processes: together {whole:,.0f} MB at their peak (sampled).")
    say(f"\nIts first line: `{own.first_line}`\n")


def growth(sizes: list[int], say: Callable[[str], None]) -> None:
    """Time and memory of the command by ranks, with a straight line through them."""
    seconds, peaks = [], []
    say("| ranks | MB of dumps | seconds | ms per rank | CPU seconds | CPU ms per rank | peak MB | KB per rank |")
    say("|---" * 8 + "|")
    for ranks in sizes:
        with dumps_of(ranks) as (folder, total):
            cost = measure(command(folder), 3 if ranks <= 1024 else 1)
        seconds.append(cost.seconds)
        peaks.append(cost.peak_mb)
        say(
            f"| {ranks:,} | {total / 1e6:,.0f} | {cost.seconds:.2f} | {cost.seconds / ranks * 1e3:.2f} "
            f"| {cost.cpu_seconds:.2f} | {cost.cpu_seconds / ranks * 1e3:.2f} "
            f"| {cost.peak_mb:,.0f} | {cost.peak_mb / ranks * 1e3:,.0f} |"
        )
    _line("seconds", "ms", sizes, seconds, say)
    _line("peak MB", "KB", sizes, peaks, say)


def _line(what: str, unit: str, sizes: list[int], values: list[float], say: Callable[[str], None]) -> None:
    if len(sizes) < 3:
        return
    slope, start = np.polyfit(sizes, values, 1)
    fitted = np.polyval([slope, start], sizes)
    spread = float(np.sum((np.array(values) - np.mean(values)) ** 2))
    left = float(np.sum((np.array(values) - fitted) ** 2))
    say(f"\n{what}: {start:.2f} + {slope * 1e3:.3f} {unit} a rank explains {100 * (1 - left / spread):.1f} % of it.")
