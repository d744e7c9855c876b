"""Logs that somebody names, of processes that have all ended: nobody lives any more whose open files would lead there.

A launcher that ends everything when one rank ends (torchrun does) leaves nothing but what was written down, and who was
the first to end stands nowhere else.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.logs.taking import outcome, take
from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.sink import Sink
from rankmuster.evidence import names

NAME = "left-log"
MAX_NAMES = 4000
"""Names looked at below one folder: torchrun keeps two files a rank and attempt."""
SUFFIXES = (".log", ".out", ".err", ".txt", ".json")


@dataclass(frozen=True, slots=True)
class LeftGiven:
    """The files and folders of `Wishes.left`. The rank of a log is what its name says."""

    name: str = NAME
    budget_seconds: float = 10.0

    def collect(self, scene: Scene, sink: Sink, deadline: Deadline) -> Outcome:
        """Newest first; of folders, what is called like a log."""
        given = scene.wishes.left
        if not given:
            return Outcome(Ending.NOTHING, "nobody named logs that ended processes have left (--left)")
        if scene.target is not None and scene.target.processes:
            return Outcome(Ending.NOTHING, "processes of the instance live, and lead to their logs themselves")
        sources = [source for path in given for source in _sources(Path(path))]
        state = take(
            sources,
            "logs",
            sink,
            deadline,
            now=scene.now,
            host=scene.machine.hostname,
            max_bytes=scene.wishes.max_log_bytes,
        )
        return outcome(state, "log(s) that were named", f"there is no log at {', '.join(given)[:200]}")


def _sources(path: Path) -> list[Source]:
    found = sorted(_below(path) if path.is_dir() else [path], key=_written, reverse=True)
    return [Source(Path("/"), str(one.absolute()), one.name, names.rank_of(one.name)) for one in found]


def _below(folder: Path) -> Iterator[Path]:
    seen = 0
    for place, inner, files in os.walk(folder):
        inner.sort()
        for name in sorted(files):
            seen += 1
            if seen > MAX_NAMES:
                return
            if name.endswith(SUFFIXES):
                yield Path(place) / name


def _written(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
