"""Summaries of many nodes merged: made node by node out of memory, so that the dumps of the whole job never exist."""

from __future__ import annotations

import multiprocessing
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.flight import generate, world
from benchmarks.flight.measure import measure
from benchmarks.flight.speed import PROCESSES, job_of
from benchmarks.flight.torch_env import cache_folder

RANKS_PER_NODE = 8


def merging(sizes: list[int], say: Callable[[str], None]) -> None:
    """Per size: what the summaries hold, and what merging them to a verdict takes."""
    program = Path(sys.executable).parent / "rankmuster"
    _one_node(program, say)
    say("| ranks | nodes | MB of dumps | MB of summaries | merge, seconds | peak MB | ms per rank | its first line |")
    say("|---" * 8 + "|")
    for ranks in sizes:
        folder = cache_folder() / f"summaries-{ranks}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            dumped = _summaries(ranks, folder)
            summed = sum(path.stat().st_size for path in folder.iterdir())
            cost = measure([program, "flight", "merge", folder], 2 if ranks <= 4096 else 1)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        say(
            f"| {ranks:,} | {ranks // RANKS_PER_NODE:,} | {dumped / 1e6:,.0f} | {summed / 1e6:,.1f} "
            f"| {cost.seconds:.2f} | {cost.peak_mb:,.0f} | {cost.seconds / ranks * 1e3:.2f} | {cost.first_line} |"
        )


def _one_node(program: Path, say: Callable[[str], None]) -> None:
    """What the command takes on one node of a large job."""
    folder = cache_folder() / "one-node"
    shutil.rmtree(folder, ignore_errors=True)
    total = generate.write(world.make(job_of(1024)), folder, range(RANKS_PER_NODE))
    target = folder / "summary"
    cost = measure([program, "flight", "summarize", folder / "input" / "flight", "-o", target], 3)
    say(
        f"`rankmuster flight summarize` on one node ({RANKS_PER_NODE} dumps, {total / 1e6:.1f} MB): "
        f"{cost.seconds:.2f} s, {cost.peak_mb:.0f} MB at its peak, {target.stat().st_size / 1e3:,.0f} KB written.\n"
    )
    shutil.rmtree(folder, ignore_errors=True)


def _summaries(ranks: int, folder: Path) -> int:
    """Writes every node's summary; bytes of the dumps that they are of."""
    made = world.make(job_of(ranks))
    nodes = list(range(ranks // RANKS_PER_NODE))
    context = multiprocessing.get_context("fork")  # shares the played job
    total = context.Value("q", 0)
    children = [
        context.Process(target=_some_nodes, args=(made, nodes[first::PROCESSES], folder, total))
        for first in range(PROCESSES)
    ]
    for child in children:
        child.start()
    for child in children:
        child.join()
    if any(child.exitcode for child in children):
        raise RuntimeError(f"a summariser failed: exit codes {[child.exitcode for child in children]}")
    return int(total.value)


def _some_nodes(made: world.World, nodes: list[int], folder: Path, total: object) -> None:
    from rankmuster.evidence.blob import Blob
    from rankmuster.evidence.bundle import gather
    from rankmuster.evidence.flight_summary_node import gathered
    from rankmuster.evidence.flight_summary_write import encode

    written = 0
    dumps = set(made.ranks_with_dump)
    for node in nodes:
        own = [rank for rank in range(node * RANKS_PER_NODE, (node + 1) * RANKS_PER_NODE) if rank in dumps]
        blobs = [Blob(world.file_name(rank), made.dump(rank)) for rank in own]
        if not blobs:
            continue
        written += sum(len(blob.data) for blob in blobs)
        host = f"node-{node:05}"
        found = gathered(gather(blobs), host, host, made.look_time(own[0]))
        (folder / f"{host}.summary").write_bytes(encode(found))
    with total.get_lock():  # type: ignore[attr-defined]
        total.value += written  # type: ignore[attr-defined]
