"""NCCL's own view of a run, from its NCCL_DEBUG log: what it chose, over which transports, with how many channels.

Of any benchmark: the text may be nccl-tests' log files, or those of the built-in benchmark's ranks, one after another.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.node_path import NcclView


@dataclass(frozen=True, slots=True)
class LogView:
    """`choices`, `transports` and `channels` as `BenchmarkRun` has them; `view` for the fingerprint."""

    choices: tuple[AlgorithmChoice, ...]
    transports: tuple[str, ...]
    channels: int | None
    view: NcclView
    nccl_version: str | None


def view_of_log(data: bytes, source: str = "nccl.log", *, topology: bytes = b"") -> LogView:
    """What the log says (NCCL_DEBUG=INFO, subsystems INIT, GRAPH, TUNING, NET); empty where it says nothing.

    `topology`: the XML of NCCL_TOPO_DUMP_FILE, for the view's GPUs and NICs.
    """
    raise NotImplementedError
