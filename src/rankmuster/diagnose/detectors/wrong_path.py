"""NCCL log and topology: a slower path than the hardware has, chosen because something forbids the better one.

Blind to slots and links that trained down (counters and benchmarks tell), and to logs without transport lines.
"""

from __future__ import annotations

from collections import Counter

from rankmuster.diagnose.context import Context
from rankmuster.diagnose.detectors import gdr, socket_path
from rankmuster.diagnose.finding import Finding, accuse
from rankmuster.model.fault import Confidence, Scope, Subkind
from rankmuster.model.nccllog import (
    NcclInit,
    NcclProblem,
    NcclProblemKind,
    NcclSetting,
    NcclTransport,
)
from rankmuster.model.plane import Plane
from rankmuster.model.topology import TopologyMatrix

NAME = "wrong-path"

FORBIDDING = {
    "NCCL_P2P_DISABLE": frozenset({"1"}),
    "NCCL_P2P_LEVEL": frozenset({"LOC", "0"}),
    "NCCL_IB_DISABLE": frozenset({"1"}),
    "NCCL_NET_GDR_LEVEL": frozenset({"LOC", "0"}),
    "NCCL_SHM_DISABLE": frozenset({"1"}),
}
"""Settings that forbid a path outright (NCCL's environment documentation); other values narrow a choice."""


LEVELS = ("LOC", "NVL", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Values of NCCL_P2P_LEVEL, near to far; the words of `nvidia-smi topo -m` from PIX on are the same."""

NARROWING = {
    "NCCL_MAX_NCHANNELS": frozenset({"1", "2"}),
    "NCCL_MAX_CTAS": frozenset({"1", "2"}),
    "NCCL_PROTO": frozenset({"LL"}),
    "NCCL_NVLS_ENABLE": frozenset({"0"}),
    "NCCL_SHM_DISABLE": frozenset({"1"}),
}
"""Settings that cost bandwidth and leave the path as it is, or that no other rule looks for."""


def detect(context: Context) -> list[Finding]:
    """Shared memory between GPUs that NVLink joins, sockets where RDMA could be, RDMA through host memory."""
    transports = context.evidence.of(NcclTransport)
    settings = _settings(context)
    found = []
    local = _shared_memory(context, transports, settings)
    if local is not None:
        found.append(local)
    remote = socket_path.detect(context, transports, settings)
    if remote is not None:
        found.append(remote)
    staged = gdr.detect(context, transports)
    found += [staged] if staged is not None else []
    return found


def _settings(context: Context) -> dict[str, tuple[str, str]]:
    """Forbidding settings: name -> (value, evidence)."""
    table: dict[str, tuple[str, str]] = {}
    if context.facts:
        for name, value in context.facts.environment.items():
            table[name] = (value, context.facts.source)
    for line in context.evidence.of(NcclSetting):
        table[line.name] = (line.value, line.origin.reference)
    return {name: said for name, said in table.items() if said[0].upper() in FORBIDDING.get(name, frozenset())}


def narrowed(context: Context) -> list[Finding]:
    """Settings that only narrow: worth a look where speed is the question (asked after the weighing), no accusation."""
    said = {line.name: line for line in context.evidence.of(NcclSetting) if line.value in NARROWING.get(line.name, ())}
    if not said:
        return []
    told = ", ".join(f"{name}={line.value}" for name, line in sorted(said.items()))
    evidence = tuple(line.origin.reference for line in said.values())
    statement = f"Settings narrow what NCCL may use: {told}. Take them away unless a measurement asks for them"
    return [Finding(NAME, Plane.NCCL_LOG, statement, evidence)]


def _shared_memory(
    context: Context, transports: tuple[NcclTransport, ...], settings: dict[str, tuple[str, str]]
) -> Finding | None:
    shared = [line for line in transports if line.via.startswith("SHM")]
    if not shared:
        return None
    linked = _nvlink_joins(context, shared)
    disabled = [p for p in context.evidence.of(NcclProblem) if p.kind is NcclProblemKind.P2P_DISABLED]
    blame = [name for name in ("NCCL_P2P_LEVEL", "NCCL_P2P_DISABLE") if name in settings]
    narrow = _narrower(context, shared)
    if narrow is not None and not blame:
        linked, settings = narrow[0], {**settings, "NCCL_P2P_LEVEL": narrow[1]}
        blame = ["NCCL_P2P_LEVEL"]
    if not (linked or blame or disabled):
        return None
    vias = Counter(line.via for line in shared)
    statement = (
        f"{len(shared)} channels between GPUs of one host go through shared memory ({vias.most_common(1)[0][0]})"
    )
    if linked:
        statement += f", though the topology shows {linked} between them"
    evidence = tuple(line.origin.reference for line in shared[:3])
    if blame:
        value, source = settings[blame[0]]
        statement += f"; {blame[0]}={value} forbids peer-to-peer: remove it"
        evidence += (source,)
    elif disabled:
        statement += f"; NCCL says: {disabled[0].text[:160]}"
        evidence += (disabled[0].origin.reference,)
    hosts = tuple(sorted({host for line in shared if (host := context.roster.host(line.origin.host)) is not None}))
    return Finding(
        NAME,
        Plane.NCCL_LOG,
        statement,
        evidence,
        accuse(
            Subkind.WRONG_PATH,
            Confidence.CONFIRMED if linked and blame else Confidence.LIKELY if linked or blame else Confidence.POSSIBLE,
            hosts=hosts,
            scope=Scope.NODE,
            stop=False,
            decisive=bool(linked and blame),
        ),
    )


def _narrower(context: Context, shared: list[NcclTransport]) -> tuple[str, tuple[str, str]] | None:
    """(word of the pair, (level, evidence)) where NCCL_P2P_LEVEL is set to less than what joins the GPUs."""
    for line in context.evidence.of(NcclSetting):
        level = line.value.upper()
        if line.name != "NCCL_P2P_LEVEL" or level not in LEVELS:
            continue
        words = _words(context, shared)
        beyond = [word for word in words if word in LEVELS and LEVELS.index(word) > LEVELS.index(level)]
        if beyond:
            return beyond[0], (line.value, line.origin.reference)
    return None


def _nvlink_joins(context: Context, shared: list[NcclTransport]) -> str | None:
    """The word (NV4, NV18, ...) that the matrix gives a pair of GPUs which talk through shared memory."""
    words = {word: count for word, count in _words(context, shared).items() if word.startswith("NV")}
    return Counter(words).most_common(1)[0][0] if words else None


def _words(context: Context, shared: list[NcclTransport]) -> Counter[str]:
    """The words of the matrix for the pairs of GPUs that talk through shared memory."""
    device = {
        (line.origin.host, line.origin.pid): line.nvml_dev
        for line in context.evidence.of(NcclInit)
        if line.nvml_dev is not None
    }
    words: Counter[str] = Counter()
    for matrix in context.evidence.of(TopologyMatrix):
        if matrix.kind != "m":
            continue
        for line in shared:
            own = device.get((line.origin.host, line.origin.pid))
            pairs = [(line.src_dev, line.dst_dev)] if line.src_dev and line.dst_dev else [(str(own), str(line.dst))]
            for one, other in pairs:
                word = matrix.cells.get((f"GPU{one}", f"GPU{other}"), "")
                if word and word != "X":
                    words[word] += 1
    return words
