"""The recorders of the instance's workers on this node: whose they are, where their files and pipes must be."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.files_below import absolute
from rankmuster.collect.flight.pipes import pipe_rank
from rankmuster.collect.flight.settings import RecorderSettings, Version, read_settings
from rankmuster.collect.flight.torch_version import torch_version
from rankmuster.collect.target import ProcessOfInstance

VERSION_SECONDS = 1.0
"""For reading torch's version; it takes 10 ms where a process's memory map is not locked."""

VERSION_TRIES = 3
"""Workers that are asked for it: an instance runs one torch, and the first may have died."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorder:
    """One worker's recorder. `rank`: global, as the names of its files end; None when it cannot be known."""

    process: ProcessOfInstance
    rank: int | None
    settings: RecorderSettings

    @property
    def who(self) -> str:
        """As the notes call it."""
        return f"rank {self.rank}" if self.rank is not None else f"process {self.process.inner_pid}"

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Absolute, as the process sees them; none where files have no rank in their names."""
        if self.settings.dynamic:
            return ()
        return tuple(absolute(self.process.cwd, prefix) for prefix in self.settings.prefixes)

    @property
    def dumps(self) -> tuple[str, ...]:
        """Where its own dump file may be."""
        if self.settings.dynamic:
            return tuple(absolute(self.process.cwd, name) for name in self.settings.prefixes)
        return () if self.rank is None else tuple(f"{prefix}{self.rank}" for prefix in self.prefixes)

    @property
    def pipe(self) -> str | None:
        """Where its pipe must be; None when it has none or its rank is not known."""
        if self.settings.pipe_prefix is None or self.rank is None:
            return None
        return absolute(self.process.cwd, f"{self.settings.pipe_prefix}{self.rank}.pipe")

    def why_not_asked(self) -> str | None:
        """A clause that says why no pipe can bring its dump, or None."""
        why = self.settings.why_no_pipe()
        if why is None and self.rank is None:
            return "its rank is not known, nor is a pipe seen among its open files"
        return why


def find_recorders(proc: Path, workers: tuple[ProcessOfInstance, ...], deadline: Deadline) -> tuple[Recorder, ...]:
    """One for each worker, in their order."""
    torch = _torch(proc, workers, deadline)
    return tuple(_recorder(proc, worker, torch) for worker in workers)


def heirs(proc: Path, processes: tuple[ProcessOfInstance, ...], deadline: Deadline) -> tuple[Recorder, ...]:
    """Where ranks that have all ended had their files, by the settings of those that live: ranks inherit them.

    Those that name a place themselves; where none does, the first, with torch's own places.
    """
    torch = _torch(proc, processes, deadline)
    found = tuple(Recorder(process, None, read_settings(process.environ, torch)) for process in processes)
    named = tuple(one for one in found if one.settings.named and not one.settings.dynamic)
    return named or tuple(one for one in found if not one.settings.dynamic)[:1]


def _recorder(proc: Path, worker: ProcessOfInstance, torch: Version | None) -> Recorder:
    settings = read_settings(worker.environ, torch)
    rank = worker.rank
    if rank is None and settings.pipe_prefix is not None:
        rank = pipe_rank(proc, worker, settings.pipe_prefix)
    return Recorder(worker, rank, settings)


def _torch(proc: Path, workers: tuple[ProcessOfInstance, ...], deadline: Deadline) -> Version | None:
    limit = deadline.within(VERSION_SECONDS)
    for worker in [one for one in workers if one.state != "X"][:VERSION_TRIES]:  # its number may be another's by now
        try:
            found = within(limit.remaining(), partial(torch_version, proc, worker))
        except Late:
            return None
        if found is not None:
            return found
    return None
