"""What ranks said in a launcher's output that was kept: of a batch job, or of torchrun started by hand on each node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rankmuster.bench.builtin.conclude import Ended, Run, conclude
from rankmuster.bench.builtin.frames import MARK, Listener
from rankmuster.bench.builtin.heard import Heard
from rankmuster.model.benchmark import BenchmarkRun


def recognises(data: bytes) -> bool:
    """Whether lines of the built-in benchmark's ranks are in it."""
    return MARK.encode() in data


def read_output(outputs: Sequence[bytes], source: str) -> BenchmarkRun:
    """The run that one or several outputs (torchrun has one on each node) tell of; cut ones make it INCOMPLETE.

    Raises ValueError where no rank speaks in any.
    """
    heard = Heard()
    for data in outputs:
        heard.take(Listener().feed(data, ended=True))
    if heard.expected is None:
        raise ValueError(f"{source}: no rank of the built-in benchmark speaks in it")
    run = Run(source=source, ranks=heard.expected, started_at=heard.started_at, environment=(), command=())
    return replace(conclude(heard, Ended(), run), environment_whole=False)
