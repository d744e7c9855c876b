"""NCCL's warnings that name why an init did not come to its end, and what mends it.

Read from NCCL's log and from the last error that a framework's exception carries. Blind to causes that NCCL does not
name: an absent rank, an address that swallows packets.
"""

from __future__ import annotations

import re
from collections import defaultdict

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors.init_advice import DRIVER_OLD, advice
from rankmuster.diagnose.detectors.not_ready import NOT_READY, bad_services
from rankmuster.diagnose.finding import Accusation, Finding, quoted
from rankmuster.diagnose.inits import CommInit
from rankmuster.model.fault import Confidence, FaultClass, Phase, Scope, Subkind
from rankmuster.model.nccllog import NcclProblem, NcclProblemKind, NcclVersionLine
from rankmuster.model.plane import Plane

NAME = "init"

Kind = NcclProblemKind

CAUSES: dict[NcclProblemKind, Subkind | None] = {
    Kind.VERSION_MISMATCH: Subkind.VERSION_MISMATCH,
    Kind.NO_INTERFACE: Subkind.NO_INTERFACE,
    Kind.SHM: Subkind.RESOURCE_LIMIT,
    Kind.GDR_MEMORY: Subkind.RESOURCE_LIMIT,
    Kind.RESOURCE: Subkind.RESOURCE_LIMIT,
    Kind.NVLS: Subkind.FABRIC_NOT_READY,
    Kind.MNNVL: Subkind.FABRIC_NOT_READY,
    Kind.DUPLICATE_GPU: Subkind.MISCONFIGURED,
    Kind.NET_PLUGIN: Subkind.MISCONFIGURED,
    Kind.CUDA: None,
    Kind.P2P_DISABLED: None,
    Kind.CONNECT_FAILED: Subkind.BOOTSTRAP_UNREACHABLE,
    Kind.BOOTSTRAP: None,
    Kind.SOCKET_ERROR: None,
}
"""What a warning during init says of its cause, the more telling first; None: init is stuck for a reason that no
sub-kind names."""

ORDER = tuple(CAUSES)

LAZY = frozenset({Kind.SHM, Kind.GDR_MEMORY})
"""Connections are made at the first collective since NCCL 2.22: these failures may follow `Init COMPLETE`."""

ALONE = frozenset(
    {Kind.VERSION_MISMATCH, Kind.NO_INTERFACE, Kind.SHM, Kind.GDR_MEMORY, Kind.NVLS, Kind.MNNVL, Kind.DUPLICATE_GPU}
    | {Kind.CONNECT_FAILED, Kind.NET_PLUGIN}
)
"""Kinds that only an init prints: they count without its START and COMPLETE lines."""

OWN_FAULT = re.compile(
    r"out of memory|illegal (?:memory access|instruction)|ECC|NVLink error|device-side assert|misaligned|"
    r"launch failure|launch timed out|hardware stack|driver shutting down|unknown error"
)
"""CUDA errors of a program or a device that had started well: no init failed by itself there (cudaError texts)."""

OF_ONE_RANK = frozenset({Kind.NO_INTERFACE, Kind.SHM, Kind.GDR_MEMORY, Kind.RESOURCE, Kind.CUDA})
"""Warnings about the process that prints them; the others are about two ends."""

FIRST_CALLS = 3
"""Collectives of a start (a barrier, an exchange of shapes): a time-out in one of them may be the init's own."""

NO_NETWORK = re.compile(r"network \S{1,40} not found|Failed to initialize any NET")
"""Ends an init; what plugins say else when they cannot start is followed by another network."""

WRONG_PARTNER = re.compile(r"wrong (?:type|magic)|truncated")
HARDWARE_P2P = "NVLINK connected"
"""The peer-to-peer warning that ends an init; the same words for other GPUs are INFO of a healthy start."""


def explicit(context: Context, pending: list[CommInit], comms: list[CommInit]) -> list[Finding]:
    """One finding for the most telling warning, where init has not completed (or no init line says anything)."""
    by_kind: dict[NcclProblemKind, list[NcclProblem]] = defaultdict(list)
    for problem in claimed(context, pending, comms):
        by_kind[problem.kind].append(problem)
    if not by_kind:
        return []
    kind = min(by_kind, key=ORDER.index)
    lines = by_kind[kind]
    subkind = _subkind(context, lines[0])
    evidence = tuple(line.origin.reference for line in lines[:6])
    title = _title(kind, subkind)
    statement = f"{title}: {quoted(lines[0].text, 240)}"
    if len(lines) > 1:
        statement += f" ({len(lines)} such lines)"
    if kind is Kind.VERSION_MISMATCH:
        statement = _versions(lines) or statement
    elif subkind is None and kind in (Kind.BOOTSTRAP, Kind.SOCKET_ERROR):
        differing = differing_versions(context)
        if differing:
            subkind, statement = Subkind.VERSION_MISMATCH, f"NCCL versions differ: {differing}; {statement}"
    statement += advice(context, kind, subkind, lines)
    if subkind is Subkind.FABRIC_NOT_READY:
        services = bad_services(context)
        evidence += tuple(event.origin.reference for event in services[:4])
    hosts = tuple(sorted({host for line in lines if (host := context.roster.host(line.origin.host)) is not None}))
    sure = kind in (Kind.VERSION_MISMATCH, Kind.NO_INTERFACE)
    logged = any(line.origin.pid is not None for line in lines)
    few = _few(context, lines) if kind in OF_ONE_RANK else ()
    accusation = Accusation(
        FaultClass.INIT_STUCK,
        subkind,
        Confidence.CONFIRMED if sure else Confidence.LIKELY,
        hosts=hosts,
        suspects=few,
        victims=context.world,
        why=dict.fromkeys(few, f"warned where its peers did not ({title})"),
        phase=Phase.INIT,
        scope=Scope.NODE if subkind is Subkind.FABRIC_NOT_READY else Scope.GROUP,
        at=context.time(lines[0].origin.stamp),
        decisive=kind is Kind.VERSION_MISMATCH,
    )
    return [Finding(NAME, Plane.NCCL_LOG if logged else Plane.FRAMEWORK_LOG, statement, evidence, accusation)]


def claimed(context: Context, pending: list[CommInit], comms: list[CommInit]) -> list[NcclProblem]:
    """Primary warnings that belong to an init: they say nothing of paths that had carried work."""
    return [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.primary and not problem.of_ras and _counts(context, problem, pending, comms)
    ]


def began(context: Context) -> bool:
    """Whether collectives are known to have run: what is said of connections then is no init's."""
    numbers = [line.seq for line in context.timeouts if line.seq is not None]
    return bool(context.table.rolls) or any(number > FIRST_CALLS for number in numbers)


def warnings_of(context: Context, comm: CommInit) -> list[NcclProblem]:
    """Primary warnings of the processes that wait in this init."""
    return [
        problem
        for problem in context.evidence.of(NcclProblem)
        if problem.primary and not problem.of_ras and (problem.origin.host, problem.origin.pid) in comm.waiting
    ]


def differing_versions(context: Context) -> str | None:
    """`a has 2.18.1, b has 2.19.3`, where no version was printed by two writers that differ otherwise.

    One process may print two versions (an engine's own library beside torch's): only disjoint sets differ.
    """
    said: dict[str, set[str]] = defaultdict(set)
    for line in context.evidence.of(NcclVersionLine):
        said[line.origin.host or line.origin.source].add(line.version)
    writers = sorted(said)
    for index, one in enumerate(writers):
        for other in writers[index + 1 :]:
            if not said[one] & said[other]:
                return f"{one} has {', '.join(sorted(said[one]))}, {other} has {', '.join(sorted(said[other]))}"
    return None


def _few(context: Context, lines: list[NcclProblem]) -> tuple[int, ...]:
    """The ranks that warned, where the others did not: the obstacle is in their host, container or environment."""
    found = {context.roster.writer(line.origin) for line in lines}
    ranks = tuple(sorted(rank for rank in found if rank is not None))
    return ranks if None not in found and len(ranks) * 2 < len(context.world) else ()


def _counts(context: Context, problem: NcclProblem, pending: list[CommInit], comms: list[CommInit]) -> bool:
    if problem.kind not in CAUSES or not _telling(problem):
        return False
    writer = (problem.origin.host, problem.origin.pid)
    if any(writer in comm.waiting for comm in pending):
        return True
    if began(context):
        return False
    if comms and not pending:
        return problem.kind in LAZY
    return problem.kind in ALONE or NOT_READY.search(problem.text) is not None or DRIVER_OLD in problem.text


def _telling(problem: NcclProblem) -> bool:
    if problem.kind is Kind.CUDA:
        return OWN_FAULT.search(problem.text) is None
    if problem.kind is Kind.P2P_DISABLED:
        return HARDWARE_P2P in problem.text
    if problem.kind is Kind.NET_PLUGIN:
        return NO_NETWORK.search(problem.text) is not None
    if problem.kind is Kind.SOCKET_ERROR:
        return WRONG_PARTNER.search(problem.text) is not None
    return True


def _subkind(context: Context, problem: NcclProblem) -> Subkind | None:
    if NOT_READY.search(problem.text):
        return Subkind.FABRIC_NOT_READY
    # Importing a peer's memory fails in plain CUDA errors when the service that hands it over does not run.
    if problem.kind is Kind.CUDA and DRIVER_OLD in problem.text:
        return Subkind.MISCONFIGURED
    if problem.kind is Kind.CUDA and bad_services(context):
        return Subkind.FABRIC_NOT_READY
    return CAUSES[problem.kind]


def _title(kind: NcclProblemKind, subkind: Subkind | None) -> str:
    if subkind is Subkind.FABRIC_NOT_READY:
        return "NVLS (NVLink SHARP) or the NVLink fabric could not be set up"
    return {
        Kind.NO_INTERFACE: "NCCL found no network interface to use",
        Kind.SHM: "A resource limit stopped NCCL",
        Kind.GDR_MEMORY: "A resource limit stopped NCCL",
        Kind.RESOURCE: "A resource limit stopped NCCL",
        Kind.NET_PLUGIN: "NCCL has no network that it may use",
        Kind.CONNECT_FAILED: "NCCL's bootstrap could not reach a peer",
        Kind.DUPLICATE_GPU: "Two ranks use the same GPU",
        Kind.BOOTSTRAP: "NCCL's bootstrap broke off",
        Kind.SOCKET_ERROR: "NCCL's bootstrap met a partner that it does not understand",
    }.get(kind, "NCCL could not initialise")


def _versions(lines: list[NcclProblem]) -> str | None:
    versions = {key: value for line in lines for key, value in line.detail}
    told = ", ".join(f"{key} has {value}" for key, value in sorted(versions.items()))
    return f"NCCL versions differ: {told}" if told else None
