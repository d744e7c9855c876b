"""What NCCL chose, beside what it chooses on the class's other nodes, and the paths that are wrong on any node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankmuster.model.admission import Check, CheckGroup, CheckState
from rankmuster.model.benchmark import AlgorithmChoice, BenchmarkRun
from rankmuster.model.node_path import NodePath
from rankmuster.model.unknown import Unknown
from rankmuster.report.admission_words import span_text

LEAST_RUNS = 3
"""Runs of the class whose choices are known before a difference is worth a word: one alone may be the odd one."""


@dataclass(frozen=True, slots=True)
class Difference:
    """`what`: algorithm, protocol or channels. `sizes`: bytes at which it differs, as the profile counts them."""

    operation: str
    what: str
    here: str
    usual: str
    sizes: tuple[int, ...]

    @property
    def words(self) -> str:
        """For a statement: `all_reduce at 1 MiB: protocol LL, SIMPLE in the class`."""
        return f"{self.operation} at {span_text(self.sizes)}: {self.what} {self.here}, {self.usual} in the class"


def differences(
    choices: Iterable[AlgorithmChoice],
    reference: Sequence[Sequence[AlgorithmChoice]],
    measured: Sequence[BenchmarkRun] = (),
) -> list[Difference]:
    """What differs from the most frequent choice of the class, per operation; a size that the class lacks is passed
    over. `reference`: choices run by run. `measured`: the runs that the choices are of, for the sizes in words."""
    known = [run for run in reference if run]
    if len(known) < LEAST_RUNS:
        return []
    votes: dict[tuple[str, int, str], Counter[str]] = {}
    for run in known:
        for choice in dict.fromkeys(run):
            for what, value in _parts(choice):
                votes.setdefault((choice.operation, choice.size_bytes, what), Counter())[value] += 1
    found: dict[tuple[str, str, str, str], list[int]] = {}
    for choice in dict.fromkeys(choices):
        for what, value in _parts(choice):
            counts = votes.get((choice.operation, choice.size_bytes, what))
            if counts is None:
                continue
            usual, count = counts.most_common(1)[0]
            if value != usual and 2 * count > sum(counts.values()):
                found.setdefault((choice.operation, what, value, usual), []).append(choice.size_bytes)
    parts = {operation: parts_of(operation, measured) for operation, *_ in found}
    return [Difference(*key, tuple(sorted({parts[key[0]] * size for size in sizes}))) for key, sizes in found.items()]


def parts_of(operation: str, measured: Sequence[BenchmarkRun]) -> int:
    """By what NCCL's size of an operation is to be multiplied for the size that was measured.

    Of an all_gather NCCL logs the bytes of one rank, where benchmarks count those of all. Which it is, the sizes say:
    they are told anew only where each of them, times the ranks, was measured, and not all as they stand.
    """
    for run in measured:
        sizes = {row.cell.size_bytes for row in run.measurements if row.cell.operation.value == operation}
        logged = {choice.size_bytes for choice in run.choices if choice.operation == operation}
        ranks = run.members
        if logged and not logged <= sizes and {ranks * size for size in logged} <= sizes:
            return ranks
    return 1


def _parts(choice: AlgorithmChoice) -> list[tuple[str, str]]:
    parts = [("algorithm", choice.algorithm), ("protocol", choice.protocol)]
    return [*parts, ("channels", str(choice.channels))] if choice.channels is not None else parts


def choice_checks(run: BenchmarkRun, reference: Sequence[Sequence[AlgorithmChoice]]) -> list[Check]:
    """A difference alone is a warning: the measurement says whether it costs anything."""
    name, group = "choices", CheckGroup.NCCL
    if not run.choices:
        words = "what NCCL chose is not known (no TUNING lines of the run)"
        return [Check(name, group, CheckState.UNKNOWN, "the node", words)]
    known = sum(bool(choices) for choices in reference)
    if known < LEAST_RUNS:
        words = f"known for {len(run.choices)} sizes; of the class it is known for {known} run(s), too few to compare"
        return [Check(name, group, CheckState.UNKNOWN, "the node", words)]
    found = differences(run.choices, reference, (run,))
    if not found:
        words = f"algorithm, protocol and channels as in the class ({known} runs)"
        return [Check(name, group, CheckState.PASS, "the node", words)]
    return [Check(name, group, CheckState.WARN, "the node", difference.words) for difference in found]


def transport_checks(run: BenchmarkRun, path: NodePath | None) -> list[Check]:
    """Paths that are wrong whatever the class does: host memory between NVLink GPUs, sockets beside RDMA NICs."""
    name, group = "transports", CheckGroup.NCCL
    if not run.transports:
        return [Check(name, group, CheckState.UNKNOWN, "the node", "over what NCCL connected is not known (no log)")]
    one_node = len({rank.host for rank in run.ranks}) <= 1
    linked = path is not None and _all_linked(path)
    rdma = path is not None and not isinstance(path.nics, Unknown) and any(nic.rdma for nic in path.nics)
    words = ", ".join(run.transports[:8])
    shm = [via for via in run.transports if via.startswith("SHM")]
    net = [via for via in run.transports if via.startswith("NET/")]
    if shm and linked:
        statement = f"NVLink connects all GPUs, and NCCL goes through host memory ({', '.join(shm[:4])})"
        advice = "peer-to-peer does not work: look at NCCL_P2P_DISABLE, the P2P matrix, IOMMU and containers' /dev/shm"
        return [Check(name, group, CheckState.FAIL, "the node", statement, advice, required=True)]
    if net and one_node:
        statement = f"ranks of one node are connected over the network ({', '.join(net[:4])})"
        advice = "they do not see that they share a node: separate /dev/shm or host ids (NCCL_HOSTID)"
        return [Check(name, group, CheckState.FAIL, "the node", statement, advice, required=True)]
    sockets = [via for via in net if via.startswith("NET/Socket")]
    if sockets and rdma:
        statement = f"the node has RDMA NICs, and NCCL uses TCP sockets ({', '.join(sockets[:4])})"
        advice = "look for NET/IB lines in the log: NCCL_IB_DISABLE, NCCL_IB_HCA, uverbs devices, ports down"
        return [Check(name, group, CheckState.FAIL, "the node", statement, advice, required=True)]
    bounced = [via for via in net if via.startswith("NET/IB") and "GDRDMA" not in via]
    if bounced:
        statement = f"RDMA without GPUDirect: data bounces through host memory ({', '.join(bounced[:4])})"
        advice = "look at nvidia_peermem or DMA-BUF, NCCL_NET_GDR_LEVEL, and which NIC is near which GPU"
        return [Check(name, group, CheckState.WARN, "the node", statement, advice, required=True)]
    return [Check(name, group, CheckState.PASS, "the node", f"connected over {words}")]


def _all_linked(path: NodePath) -> bool:
    """Whether every GPU of the node has NVLinks, and the topology matrix, where known, shows them for every pair."""
    gpus = () if isinstance(path.gpus, Unknown) else path.gpus
    if not gpus or any(isinstance(gpu.links, Unknown) or not gpu.links for gpu in gpus):
        return False
    topology = path.matrices.get("m")
    if topology is None:
        return True
    pairs = [(f"GPU{a.index}", f"GPU{b.index}") for a in gpus for b in gpus if a.index != b.index]
    return all(topology.cells.get(pair, "NV").startswith("NV") for pair in pairs)
