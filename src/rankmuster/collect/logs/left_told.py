"""The output of processes that have ended, by what their supervisor noted while they lived: which file, from where."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from rankmuster.collect import files_below
from rankmuster.collect.bounded import each
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.left_behind import began
from rankmuster.collect.logs.sources import Source
from rankmuster.collect.target import LeftOutput, Target

PATIENCE = 1.0
"""Seconds for the look at one file."""

ROOT = Path("/")

ERROR_FILE = "error.json"
"""torchrun's, of a rank: it is there where an exception ended the rank, and else never was."""

SILENT = (
    "what the command wrote went to a terminal, a pipe or the journal and cannot be read again: `rankmuster run --log "
    "FILE` keeps a launcher's last words"
)


@dataclass(frozen=True, slots=True)
class Told:
    """`old`: files that nobody has written to since the incarnation began. `notes`: what is missing, and why."""

    sources: list[Source] = field(default_factory=list)
    old: int = 0
    notes: tuple[str, ...] = ()


def told(target: Target, deadline: Deadline) -> Told:
    """Nothing where no supervisor tells of ended processes."""
    ended = target.ended
    if ended is None:
        return Told()
    since = began(target)
    done = each(list(ended.outputs), _look, patience=PATIENCE, total=deadline.remaining() / 4)
    sources: list[Source] = []
    old = missing = 0
    for output, seen in done.results:
        if seen is None:
            missing += output.path.rsplit("/", 1)[-1] != ERROR_FILE
        elif seen[0] < since:
            old += 1
        else:
            same = output.inode in (None, seen[1])
            name = output.path.rsplit("/", 1)[-1]
            begin = output.offset if same else 0
            sources.append(Source(ROOT, output.path, name, output.rank, output.uid, begin=begin))
    notes = [f"{output.path} did not let itself be looked at in time" for output in (*done.stuck, *done.skipped)]
    if missing:
        notes.append(f"{missing} file(s) of output that ended processes had are gone")
    if ended.silent and ended.story:
        notes.append(SILENT)
    return Told(sources, old, tuple(notes))


def _look(output: LeftOutput) -> tuple[float, int] | None:
    try:
        about = files_below.status(ROOT, output.path)
    except OSError:
        return None
    return about.st_mtime, about.st_ino
