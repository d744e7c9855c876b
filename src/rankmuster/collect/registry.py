"""All collectors, in the order in which they are started: what vanishes first is taken first."""

from __future__ import annotations

from rankmuster.collect.assess import Assess
from rankmuster.collect.flight.debug_server import DebugServer
from rankmuster.collect.flight.files import DumpFiles
from rankmuster.collect.logs.engine_pages import EnginePages
from rankmuster.collect.logs.framework_logs import FrameworkLogs
from rankmuster.collect.logs.left_given import LeftGiven
from rankmuster.collect.logs.nccl_logs import NcclLogs
from rankmuster.collect.node.gpus import Gpus
from rankmuster.collect.node.kernel import Kernel
from rankmuster.collect.node.network import Network
from rankmuster.collect.node.node_facts import NodeFacts
from rankmuster.collect.node.smi_topology import SmiTopology
from rankmuster.collect.pool import Task
from rankmuster.collect.ras.collector import RasCollector
from rankmuster.collect.sink import Store
from rankmuster.collect.stacks import Stacks
from rankmuster.collect.wishes import Part

OF_NODE = ("hardware", "network", "kernel", "topology")
"""Collectors of `Part.NODE`, by name: they see from outside what a pod cannot, and ask no rank."""


def tasks(store: Store, part: Part = Part.ALL) -> tuple[Task, ...]:
    """Processes and counters change by the moment; dump files are overwritten; logs stay a while."""
    found = _all(store)
    if part is Part.ALL:
        return found
    return tuple(task for task in found if (task.collector.name in OF_NODE) is (part is Part.NODE))


def _all(store: Store) -> tuple[Task, ...]:
    return (
        Task(NodeFacts()),
        Task(Gpus(), until_end=True),
        Task(EnginePages(), until_end=True),
        Task(DumpFiles()),
        Task(Network()),
        Task(NcclLogs()),
        Task(FrameworkLogs()),
        Task(LeftGiven()),
        Task(Assess(store)),
        Task(DebugServer()),
        Task(RasCollector()),
        Task(Stacks()),
        Task(Kernel()),
        Task(SmiTopology()),
    )
