"""All checks of one node in the order in which a person asks: is it there, is it sound, is it set up, is it right."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.admission.benchmark_checks import benchmark_checks
from rankmuster.admission.correctness import correctness_checks
from rankmuster.admission.dcgm import dcgm_checks
from rankmuster.admission.facts import NodeFacts
from rankmuster.admission.hardware_clocks import clock_checks
from rankmuster.admission.hardware_kernel import kernel_checks
from rankmuster.admission.hardware_links import link_checks
from rankmuster.admission.hardware_memory import memory_checks
from rankmuster.admission.hardware_pcie import pcie_checks
from rankmuster.admission.nccl_log_checks import log_checks
from rankmuster.admission.network_ports import port_checks
from rankmuster.admission.peer_to_peer import peer_checks
from rankmuster.admission.plan import Taken
from rankmuster.admission.presence import presence_checks
from rankmuster.admission.settings_checks import environment_checks
from rankmuster.model.admission import Check
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.node_path import GpuPath, NodePath
from rankmuster.model.unknown import Unknown


def node_checks(before: Taken, after: Taken, facts: NodeFacts, runs: Sequence[BenchmarkRun]) -> list[Check]:
    """Everything that needs no history. `before`, `after`: the two looks around the benchmark."""
    path = after.path if after.path is not None else before.path
    checks = presence_checks(path)
    if path is not None and _gpus(path):
        gpus, earlier = _gpus(path), _gpus(before.path)
        checks += [
            *kernel_checks(facts, gpus),
            *memory_checks(gpus),
            *link_checks(gpus, earlier),
            *pcie_checks(path, gpus, facts.load, earlier),
            *clock_checks(gpus, facts.load),
            *dcgm_checks(facts.dcgm),
            *environment_checks(path, after.fingerprint.settings),
            *peer_checks(path),
        ]
    nics = (
        [nic.name for nic in path.nics if nic.rdma] if path is not None and not isinstance(path.nics, Unknown) else []
    )
    if nics:
        checks += port_checks(facts, facts.ports_before, after.fingerprint.settings, nics)
    checks += [*log_checks(facts.nccl_log), *benchmark_checks(runs), *correctness_checks(runs)]
    return checks


def _gpus(path: NodePath | None) -> tuple[GpuPath, ...]:
    return () if path is None or isinstance(path.gpus, Unknown) else path.gpus
