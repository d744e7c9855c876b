"""What floors are computed from, out of what was read of the node."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.baseline.floors import FloorInput
from rankmuster.model.benchmark import BenchmarkRun
from rankmuster.model.node_path import GpuPath, NodePath
from rankmuster.model.unknown import Unknown

PCIE_LANE_GBS = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""GB/s of one lane and direction by generation, after line coding (PCI-SIG)."""

BITS = 8  # of a byte: rates of NICs are in Gb/s


def floor_input(path: NodePath | None, runs: Sequence[BenchmarkRun]) -> FloorInput | None:
    """None where the GPUs are not known. Links count as they can be, not as they are: a lost one lowers no floor."""
    if path is None or isinstance(path.gpus, Unknown) or not path.gpus:
        return None
    ranks = max((run.ranks for run in runs), key=len, default=())
    nodes = max(len({rank.host for rank in ranks}), 1)
    members = max((run.members for run in runs), default=0)  # a list of ranks may have lost some
    used = max(members // nodes, 1) if ranks else len(path.gpus)
    models = {gpu.model for gpu in path.gpus if isinstance(gpu.model, str)}
    return FloorInput(
        gpu_model=models.pop() if len(models) == 1 else None,
        gpu_count=used,
        nvlink_gbs=_nvlink(path.gpus),
        nvlink_to_all=_to_all(path),
        pcie_gbs=_pcie(path.gpus),
        nic_gbs=_nics(path),
        rdma=_rdma(path),
        nodes=nodes,
    )


def _nvlink(gpus: Sequence[GpuPath]) -> float | None:
    sums = []
    for gpu in gpus:
        if isinstance(gpu.links, Unknown):
            return None
        speeds = [link.speed_gbps for link in gpu.links if isinstance(link.speed_gbps, (int, float))]
        top = max(speeds, default=0.0)
        sums.append(top * len(gpu.links))
    return max(sums, default=None)


def _to_all(path: NodePath) -> bool | None:
    """Whether every pair of GPUs shares NVLinks, by the topology matrix; else by links that lead to switches."""
    gpus = () if isinstance(path.gpus, Unknown) else path.gpus
    topology = path.matrices.get("m")
    if topology is not None:
        labels = [f"GPU{gpu.index}" for gpu in gpus]
        words = [topology.cells.get((one, other)) for one in labels for other in labels if one != other]
        if words and None not in words:
            return all(str(word).startswith("NV") for word in words)
    remotes = {link.remote for gpu in gpus if not isinstance(gpu.links, Unknown) for link in gpu.links}
    known = {remote for remote in remotes if isinstance(remote, str)}
    return True if "switch" in known else None


def _pcie(gpus: Sequence[GpuPath]) -> float | None:
    rates = []
    for gpu in gpus:
        generation, width = gpu.pcie.generation_max, gpu.pcie.width_max
        if isinstance(generation, Unknown) or isinstance(width, Unknown) or generation not in PCIE_LANE_GBS:
            return None
        rates.append(PCIE_LANE_GBS[generation] * width)
    return min(rates, default=None)


def _nics(path: NodePath) -> float | None:
    if isinstance(path.nics, Unknown):
        return None
    rates = [port.rate_gbps for nic in path.nics if nic.rdma for port in nic.ports]
    known = [rate for rate in rates if isinstance(rate, (int, float))]
    return sum(known) / BITS if known and len(known) == len(rates) else None


def _rdma(path: NodePath) -> bool | None:
    return None if isinstance(path.nics, Unknown) else any(nic.rdma for nic in path.nics)
