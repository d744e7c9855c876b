"""What NCCL said of its choices and connections, from the log lines that ranks brought along."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rankmuster.evidence import nccl_log
from rankmuster.evidence.blob import Blob
from rankmuster.model.benchmark import AlgorithmChoice
from rankmuster.model.nccllog import NcclProblem, NcclTransport, NcclTuning, NcclVersionLine

OPERATIONS = {
    "AllReduce": "all_reduce",
    "AllGather": "all_gather",
    "ReduceScatter": "reduce_scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
    "AlltoAll": "all_to_all",
    "AllToAll": "all_to_all",
}
"""NCCL's names in its TUNING lines; sends and receives are not tuned."""

_CHANNELS = re.compile(r"\b(\d{1,4}) coll channels\b")


@dataclass(frozen=True, slots=True)
class NcclView:
    """`channels`: collective channels, the fewest of all ranks; `warnings`: NCCL's own words, each once."""

    version: str | None
    choices: tuple[AlgorithmChoice, ...]
    transports: tuple[str, ...]
    channels: int | None
    warnings: tuple[str, ...]


def view(logs: Iterable[list[str]]) -> NcclView:
    """`logs`: lines per rank, as `logs.telling` chose them."""
    choices: dict[AlgorithmChoice, None] = {}
    ways: dict[str, None] = {}
    channels: list[int] = []
    warnings: dict[str, None] = {}
    version = None
    for number, lines in enumerate(logs):
        channels += [int(match[1]) for line in lines if (match := _CHANNELS.search(line))]
        blob = Blob(f"nccl/rank_{number}.log", "".join(f"{line}\n" for line in lines).encode())
        for seen in nccl_log.READER.read(blob).observations:
            if isinstance(seen, NcclTuning):
                name = OPERATIONS.get(seen.op or "", seen.op or "?")
                count = seen.channels[1] - seen.channels[0] + 1 if seen.channels else None
                choices[AlgorithmChoice(name, seen.bytes, seen.algorithm, seen.protocol, count)] = None
            elif isinstance(seen, NcclTransport):
                ways[seen.via] = None
            elif isinstance(seen, NcclVersionLine):
                version = version or seen.version
            elif isinstance(seen, NcclProblem) and seen.primary:
                warnings[seen.text[:200]] = None
    ordered = sorted(choices, key=lambda choice: (choice.operation, choice.size_bytes))
    return NcclView(version, tuple(ordered), tuple(sorted(ways)), min(channels, default=None), tuple(warnings))
