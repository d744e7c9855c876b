"""What NCCL's log says of a run's paths: chosen algorithms, transports, channels, settings, and the graphs searched.

Of a log that several ranks wrote, what most of them say is taken; that they differ at all is for a diagnosis to say.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.evidence import nccl_log, nccl_topology
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.nccl_tests_environment import kept
from rankmuster.model.benchmark import AlgorithmChoice, Operation
from rankmuster.model.nccllog import NcclSetting, NcclTopology, NcclTransport, NcclTuning, NcclVersionLine
from rankmuster.model.node_path import NcclView

MOST_CHOICES = 10_000
MOST_TRANSPORTS = 64

_OPERATIONS = {
    "allreduce": Operation.ALL_REDUCE.value,
    "allgather": Operation.ALL_GATHER.value,
    "reducescatter": Operation.REDUCE_SCATTER.value,
    "alltoall": Operation.ALL_TO_ALL.value,
    "broadcast": Operation.BROADCAST.value,
    "reduce": Operation.REDUCE.value,
    "sendrecv": Operation.SEND_RECV.value,
    "send": Operation.SEND_RECV.value,
    "recv": Operation.SEND_RECV.value,
}
_CHANNELS = re.compile(rb"NCCL INFO (\d{1,4}) coll channels")
_GRAPH = re.compile(rb"NCCL INFO Pattern (\d{1,3}), [^\n]{0,120}?type (\w{2,8})/(\w{2,8})")


@dataclass(frozen=True, slots=True)
class LogView:
    """`choices`, `transports`, `channels` as `BenchmarkRun` has them; `view` for the fingerprint; `settings`: NCCL_*
    values that NCCL says it was given. All empty where the log says nothing."""

    choices: tuple[AlgorithmChoice, ...]
    transports: tuple[str, ...]
    channels: int | None
    view: NcclView
    nccl_version: str | None
    settings: tuple[tuple[str, str], ...] = ()


def log_view(data: bytes, source: str, topology: bytes = b"") -> LogView:
    """What stands in a log, or in any text with NCCL's lines in it. `topology`: XML of NCCL_TOPO_DUMP_FILE."""
    blob = Blob(source, data)
    seen = nccl_log.READER.read(blob).observations if nccl_log.READER.recognises(blob) else ()
    choices = _choices(one for one in seen if isinstance(one, NcclTuning))
    transports = Counter(one.via for one in seen if isinstance(one, NcclTransport))
    settings = kept((one.name, one.value) for one in seen if isinstance(one, NcclSetting))
    version = next((one.version for one in seen if isinstance(one, NcclVersionLine)), None)
    words = tuple(sorted(transports))[:MOST_TRANSPORTS]
    return LogView(choices, words, _channels(data), _view(data, choices, words, topology), version, settings)


def _choices(tunings: Iterable[NcclTuning]) -> tuple[AlgorithmChoice, ...]:
    found: dict[tuple[str, int], Counter[tuple[str, str, int | None]]] = {}
    for one in tunings:
        operation = _OPERATIONS.get((one.op or "").lower().removeprefix("nccl"), (one.op or "").lower())
        channels = one.channels[1] - one.channels[0] + 1 if one.channels is not None else None
        key = (operation, one.bytes)
        if key in found or len(found) < MOST_CHOICES:
            found.setdefault(key, Counter())[(one.algorithm, one.protocol, channels)] += 1
    # of choices that are equally frequent the first written: the order of a log is not the order of its ranks
    return tuple(
        AlgorithmChoice(operation, size, *found[(operation, size)].most_common(1)[0][0])
        for operation, size in sorted(found)
    )


def _channels(data: bytes) -> int | None:
    said = Counter(int(number) for number in _CHANNELS.findall(data))
    return said.most_common(1)[0][0] if said else None


def _view(data: bytes, choices: tuple[AlgorithmChoice, ...], transports: tuple[str, ...], topology: bytes) -> NcclView:
    graphs = {int(pattern): f"{intra.decode()}/{inter.decode()}" for pattern, intra, inter in _GRAPH.findall(data)}
    said = tuple(graphs[pattern] for pattern in sorted(graphs))
    read = nccl_topology.READER.read(Blob("topology.xml", topology)).observations if topology else ()
    for one in read:
        if isinstance(one, NcclTopology):
            return NcclView(one.gpus, one.nets, one.graphs or said, choices, transports)
    return NcclView((), (), said, choices, transports)
