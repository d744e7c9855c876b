"""A node's path from captured text: what `nvidia-smi`, RDMA tools and captures of /sys say, made one `NodePath`."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.model.node_path import NodePath


class NotOneNode(Exception):
    """The evidence is of no node, or of several and none was asked for; the message names them."""


def hosts_in(observations: Sequence[object]) -> tuple[str, ...]:
    """The hosts that topology evidence names, sorted; () where none is named (all of it is then of one node)."""
    raise NotImplementedError


def from_evidence(observations: Sequence[object], *, host: str | None = None, taken_at: float = 0.0) -> NodePath:
    """The node of `host`; without one, of the only host that the evidence names.

    `observations`: of `evidence.bundle.load(path, readers=node_path_readers.all_for_node_paths())`. What no text says
    is Unknown. Raises NotOneNode.
    """
    raise NotImplementedError
