"""NCCL's own view of a run, from its NCCL_DEBUG log: what it chose, over which transports, with how many channels.

Of any benchmark: the text may be nccl-tests' log files, or those of the built-in benchmark's ranks, one after another.
"""

from __future__ import annotations

from rankmuster.evidence.nccl_choices import LogView, log_view

__all__ = ["INIT_SUBSYSTEMS", "TUNING_SUBSYSTEMS", "LogView", "view_of_log"]

INIT_SUBSYSTEMS = "INIT,GRAPH,ENV,NET,P2P,SHM"
"""NCCL_DEBUG_SUBSYS of a measured process: NCCL writes these while it connects, and nothing for each operation."""

TUNING_SUBSYSTEMS = "INIT,GRAPH,ENV,NET,P2P,SHM,TUNING"
"""With TUNING NCCL writes a line for every operation of every rank, which would be measured too: for a short process
of its own."""


def view_of_log(data: bytes, source: str = "nccl.log", *, topology: bytes = b"") -> LogView:
    """What the log says (NCCL_DEBUG=INFO with `TUNING_SUBSYSTEMS`); empty where it says nothing.

    `topology`: the XML of NCCL_TOPO_DUMP_FILE, for the view's GPUs and NICs.
    """
    return log_view(data, source, topology)
