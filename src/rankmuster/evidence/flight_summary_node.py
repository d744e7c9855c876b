"""A node's folder of dumps, as read -> what its summary holds.

What only the node's manifest knows of a dump (rank, host, look time) is written into it, so that summaries need none.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from rankmuster.evidence import dump_requests, flight_json, flight_pickle, manifest, names
from rankmuster.evidence.blob import Reader
from rankmuster.evidence.bundle import Evidence
from rankmuster.evidence.flight_summary_schema import nothing
from rankmuster.model.flight import DumpRequest, FlightDump
from rankmuster.model.instance import ManifestFacts
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.stamp import unix

OF_A_NODE: tuple[Reader, ...] = (flight_pickle.READER, flight_json.READER, dump_requests.READER, manifest.READER)
"""What is read of a node's folder."""

MAX_PROBLEMS = 1_000
"""Problems of original files that are carried along; what follows is counted."""

_DUMP_READERS = frozenset({flight_pickle.READER.name, flight_json.READER.name})


@dataclass(frozen=True, slots=True)
class NodeDumps:
    """What a summary holds. `node`: the name it goes by, before the paths of its dumps; `host`: where the dumps were,
    as far as somebody said so; `written`: unix seconds."""

    node: str
    host: str | None
    written: float
    dumps: tuple[FlightDump, ...]
    requests: tuple[DumpRequest, ...] = ()
    clock_offsets: Mapping[str, float] | None = None
    problems: tuple[Problem, ...] = ()

    @property
    def entries(self) -> int:
        """Of all dumps."""
        return sum(len(dump.columns) for dump in self.dumps)


def gathered(evidence: Evidence, node: str, host: str | None, written: float) -> NodeDumps:
    """What `OF_A_NODE` made of a node's folder.

    A file of which nothing is usable stays, as a cut dump without entries, where its name says whose it is: its rank
    wrote something, and is not one that left no dump.
    """
    manifests = evidence.of(ManifestFacts)
    looks = {path: time for facts in manifests for path, time in facts.look_times.items()}
    ranks = {path: rank for facts in manifests for path, rank in facts.ranks.items()}
    hosts = {path: name for facts in manifests for path, name in facts.hosts.items()}

    def told(dump: FlightDump) -> FlightDump:
        look = looks.get(dump.source)
        return replace(
            dump,
            rank=ranks.get(dump.source, dump.rank),
            host=hosts.get(dump.source) or dump.host or host,
            time=unix(look) if look is not None else dump.time,
        )

    dumps = [told(dump) for dump in (*evidence.of(FlightDump), *_unusable(evidence))]
    return NodeDumps(
        node=node,
        host=host,
        written=written,
        dumps=tuple(sorted(dumps, key=lambda dump: dump.source)),
        requests=evidence.of(DumpRequest),
        clock_offsets={name: offset for facts in manifests for name, offset in facts.clock_offsets.items()},
        problems=_worth_telling(evidence),
    )


def _unusable(evidence: Evidence) -> Iterable[FlightDump]:
    """A dump without entries for each file that was to be one."""
    read = {dump.source for dump in evidence.of(FlightDump)}
    folders = {posixpath.dirname(source) for source in read}
    for source in evidence.sources:
        rank = names.rank_of(source.path)
        empty = not source.size and posixpath.dirname(source.path) in folders
        if rank is not None and source.path not in read and (empty or _DUMP_READERS & set(source.readers)):
            yield FlightDump(
                source=source.path,
                rank=rank,
                host=names.host_of(source.path),
                form="pickle",
                version=(0, 0),
                comm_lib_version=None,
                columns=nothing(),
                status={},
                cut=True,
            )


def _worth_telling(evidence: Evidence) -> tuple[Problem, ...]:
    """All but the files that are none of dumps."""
    ours = {source.path for source in evidence.sources if source.readers or not source.size}
    walked = {source.path for source in evidence.sources}
    told = [
        problem
        for problem in evidence.problems
        if problem.source in ours or (problem.kind is not ProblemKind.UNREAD and problem.source not in walked)
    ]
    if len(told) > MAX_PROBLEMS:
        message = f"{len(told) - MAX_PROBLEMS} more problems of its files are not listed"
        return (*told[:MAX_PROBLEMS], Problem(ProblemKind.DAMAGED, ".", message))
    return tuple(told)
