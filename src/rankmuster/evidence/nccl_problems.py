"""What an NCCL warning is about, and whether it can be a cause (texts: NCCL src, 2.4 to 2.32).

NCCL's warnings come in chains: one rank's device fails, its queue is flushed, its peers see connections close, and
each prints a warning. The rules below name the texts that are only ever after-effects (`primary` False), so that the
earliest of the others can be taken for the cause. A text that no rule knows is kept as OTHER: new releases bring new
warnings, and an unknown one is still a warning.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from rankmuster.evidence.nccl_line import Level, NcclLine
from rankmuster.model.nccllog import NcclProblemKind as Kind

IB_WC_WR_FLUSH_ERR = 5
"""ibv_wc_status of work requests flushed after another one failed (rdma-core, verbs.h): never a cause."""

FIRST_FIVE_DIGIT_CODE = 10_000
"""NCCL_VERSION codes: up to 2.8 X*1000+Y*100+Z (2803), from 2.9 on X*10000+Y*100+Z (22705); nccl.h.in."""

Detail = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Classified:
    """What `classify` makes of one message; the fields are those of `NcclProblem`."""

    kind: Kind
    primary: bool
    peer: str | None = None
    detail: Detail = ()


def decode_version(code: int) -> str:
    """`22705` -> `2.27.5`, `2803` -> `2.8.3`."""
    unit = 1000 if code < FIRST_FIVE_DIGIT_CODE else 10_000
    return f"{code // unit}.{code % unit // 100}.{code % 100}"


_PROPAGATION = re.compile(r"^\S{1,200}:\d{1,9}(?: \([^()]{0,160}\))? -> -?\d{1,5}\b")
_ADDRESS = r"([^\s<>]{1,255}<\d{1,5}>)"
_PEER = re.compile(rf"(?:\b(?:peer|from|to|with|socket)) {_ADDRESS}")
_ANY_ADDRESS = re.compile(_ADDRESS)
_SAID = re.compile(r"(?:failed : |returned |failed with (?:error )?|error: )([^,()]{1,120})")
_VERSIONS = re.compile(r"rank (\d{1,9}) version (\d{3,9})")
_RANKS = re.compile(r"\brank (\d{1,9})")
_AROUND_RANK = re.compile(r"around rank (\d{1,9})")
_CODE = re.compile(r"(?:[Ff]ailure|CUDA error) (\d{1,5})")
_QUOTED = re.compile(r"'([^']{1,160})'")
_LOCAL_RANK = re.compile(r"closed by localRank (\d{1,9})")
_MISSING = re.compile(r"-- (\d{1,9}) responses missing")
_ASYNC = re.compile(
    r"NET/IB ?: (?:(?P<hca>[^\s:]{1,64}):(?P<port>\d{1,4}) )?.{0,40}?"
    r"async (?:fatal |error )?event(?: on [^:]{1,60})? ?: (?P<event>.{1,120})"
)
_COMPLETION: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("status", re.compile(r"\b(?:status=(?:[^(\s]{0,60}\()?|with error )(\d{1,5})")),
    ("opcode", re.compile(r"\bopcode[= ](?:[^(\s,]{0,60}\()?(\d{1,9})")),
    ("len", re.compile(r"\blen[= ](\d{1,12})")),
    ("vendor_err", re.compile(r"\bvendor[_ ]err[= ](\d{1,9})")),
    ("direction", re.compile(r"\((Send|Recv|Flush|Unknown[^)]{0,20})\)")),
    ("local_gid", re.compile(r"\blocalGid (\S{1,60})")),
    ("remote_gid", re.compile(r"\bremoteGids? ?(\S{1,200})")),
    ("hca", re.compile(r"\bhca (\S{1,64})")),
    ("qp", re.compile(r"\bqp_num=(\d{1,12})")),
)
_VERB: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("call", re.compile(r"Call to (\w{1,60})")),
    ("errno", re.compile(r"(?:failed with |errno )(\d{1,5})")),
    ("error", re.compile(r"failed(?: : | with error | with \d{1,5} )([^,]{1,120}?)(?= errno|,|$)")),
    ("hca", re.compile(r"\bon dev (\S{1,64}?)(?=,|$)")),
    ("state", re.compile(r"\bcurr state ([^,]{1,40})")),
    ("next_state", re.compile(r"\bnext state ([^,]{1,40})")),
    ("gid_index", re.compile(r"\blocal GID index (\d{1,6})")),
    ("local_gid", re.compile(r"\blocal GID (?!index)([^\s,]{1,60})")),
    ("remote_gid", re.compile(r"\bremote GID ([^\s,]{1,60})")),
)


def _fields(message: str, patterns: tuple[tuple[str, re.Pattern[str]], ...]) -> Detail:
    found = ((name, pattern.search(message)) for name, pattern in patterns)
    return tuple((name, match[1].strip()) for name, match in found if match is not None)


def _peer(message: str) -> str | None:
    match = _PEER.search(message) or _ANY_ADDRESS.search(message)
    return match[1] if match else None


def _said(message: str) -> Detail:
    match = _SAID.search(message)
    return (("error", match[1].strip()),) if match else ()


def _plain(kind: Kind, *, primary: bool = True) -> Callable[[NcclLine], Classified]:
    def make(line: NcclLine) -> Classified:
        return Classified(kind, primary, _peer(line.message), _said(line.message))

    return make


def _versions(line: NcclLine) -> Classified:
    pairs = sorted((int(rank), decode_version(int(code))) for rank, code in _VERSIONS.findall(line.message))
    return Classified(Kind.VERSION_MISMATCH, True, None, tuple((f"rank {rank}", said) for rank, said in pairs))


def _completion(line: NcclLine) -> Classified:
    detail = _fields(line.message, _COMPLETION)
    flushed = ("status", str(IB_WC_WR_FLUSH_ERR)) in detail or "WR_FLUSH" in line.message
    return Classified(Kind.IB_COMPLETION, not flushed, _peer(line.message), detail)


def _async_event(line: NcclLine) -> Classified:
    match = _ASYNC.search(line.message)
    parts = match.groupdict() if match else {}
    detail = tuple((name, value.strip()) for name, value in parts.items() if value)
    fatal = "no" if "non-fatal" in line.message or "GID table changed" in line.message else "yes"
    return Classified(Kind.IB_ASYNC, True, None, (*detail, ("fatal", fatal)))


def _verb(line: NcclLine) -> Classified:
    detail = _fields(line.message, _VERB)
    # Failing to pin memory or to size a queue both mean the locked-memory limit, or a missing peer-memory module.
    memory = any(words in line.message for words in ("reg_mr", "reg_dmabuf_mr", "create_cq", "Cannot allocate memory"))
    return Classified(Kind.GDR_MEMORY if memory else Kind.IB_QP, True, _peer(line.message), detail)


def _socket_call(line: NcclLine) -> Classified:
    # A reset or a broken pipe is what the kernel answers for a peer that is gone, like an orderly close.
    gone = "reset by peer" in line.message or "Broken pipe" in line.message
    return Classified(Kind.SOCKET_ERROR, not gone, _peer(line.message), _said(line.message))


def _cuda(line: NcclLine) -> Classified:
    code, text = _CODE.search(line.message), _QUOTED.search(line.message)
    detail = ((("code", code[1]),) if code else ()) + ((("error", text[1]),) if text else ())
    if line.file:
        detail += (("file", line.file),)
    where = line.file or ""
    # The text of a CUDA failure never names the feature that asked for it; the file does.
    kind = Kind.NVLS if "nvls.cc" in where else Kind.MNNVL if "mnnvl.cc" in where else Kind.CUDA
    return Classified(kind, True, None, detail)


def _nvls(line: NcclLine) -> Classified:
    return Classified(Kind.NVLS, True, None, _cuda(line).detail)


def _ranks(kind: Kind) -> Callable[[NcclLine], Classified]:
    def make(line: NcclLine) -> Classified:
        ranks = _AROUND_RANK.findall(line.message) or _RANKS.findall(line.message)
        return Classified(kind, True, _peer(line.message), tuple(("rank", rank) for rank in ranks[:8]))

    return make


def _local_rank(line: NcclLine) -> Classified | None:
    match = _LOCAL_RANK.search(line.message)
    if match is None:
        return None
    return Classified(Kind.CLOSED_BY_PEER, False, None, (("local_rank", match[1]),))


def _ras(line: NcclLine) -> Classified | None:
    message = line.message
    missing = _MISSING.search(message)
    if missing is not None:  # "0 responses missing" is a client that closed early, in healthy jobs too
        lacking = missing[1].strip("0") != ""
        return Classified(Kind.RAS, False, None, (("missing", missing[1]),)) if lacking else None
    if "closed by peer" in message:
        # RAS closes duplicates ("old", "new" connections) in healthy jobs.
        current = "current socket" in message
        return Classified(Kind.CLOSED_BY_PEER, False, _peer(message), (("thread", "ras"),)) if current else None
    # Reconnecting fails after the peer is lost, and RAS without a socket harms no job: only the first silence and the
    # verdict can be news.
    primary = "as DEAD" in message or "keep-alive timeout" in message
    detail: Detail = (("dead", "yes"),) if "as DEAD" in message else ()
    return Classified(Kind.RAS, primary, _peer(message), detail)


_Rule = tuple[str, Callable[[NcclLine], Classified | None]]

_WARNINGS: tuple[_Rule, ...] = (
    ("Too many open files", _plain(Kind.RESOURCE)),
    ("pthread_create", _plain(Kind.RESOURCE)),
    ("Mismatched NCCL version", _versions),
    ("Mismatched collective", _ranks(Kind.COLLECTIVE_MISMATCH)),
    ("collective mismatch error", _plain(Kind.COLLECTIVE_MISMATCH)),
    ("message truncated : receiving", _plain(Kind.COLLECTIVE_MISMATCH)),
    ("registration check failed", _ranks(Kind.COLLECTIVE_MISMATCH)),
    ("Connection closed by remote peer", _plain(Kind.CLOSED_BY_PEER, primary=False)),
    ("Socket recv failed while polling", _plain(Kind.PROXY, primary=False)),
    ("is in abort state", _plain(Kind.PROXY, primary=False)),
    ("Got completion", _completion),
    ("Got CQE with error", _completion),
    ("async fatal event", _async_event),
    ("async event", _async_event),
    ("async error event", _async_event),
    ("GID table changed", _async_event),
    ("encountered a fatal error (detected", _plain(Kind.IB_ASYNC, primary=False)),
    ("marked as failed", _plain(Kind.IB_DEVICE_FAILED)),
    ("NET/IB: Fatal error", _plain(Kind.IB_DEVICE_FAILED)),
    ("Call to ibv_open_device", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("Unable to open device", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("Failed to open libibverbs", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("NET/OFI Only EFA provider", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("Could not find any optimal provider", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("GPU Direct RDMA Disabled", _plain(Kind.GDR_DISABLED, primary=False)),
    ("Call to ibv_", _verb),
    ("ibv_reg_mr", _verb),
    ("no socket interface found", _plain(Kind.NO_INTERFACE)),
    ("No socket interface found", _plain(Kind.NO_INTERFACE)),
    ("No usable listening interface", _plain(Kind.NO_INTERFACE)),
    ("no interface found", _plain(Kind.NO_INTERFACE)),
    ("No interface found", _plain(Kind.NO_INTERFACE)),
    ("is neither AF_INET", _plain(Kind.NO_INTERFACE)),  # an address that was never filled in (2.27)
    ("exceeded error retry count", _plain(Kind.CONNECT_FAILED)),
    ("socketStartConnect", _plain(Kind.CONNECT_FAILED)),
    ("socketPollConnect", _plain(Kind.CONNECT_FAILED)),
    ("onnect to ", _plain(Kind.CONNECT_FAILED)),
    ("connect returned", _plain(Kind.CONNECT_FAILED)),
    ("Bootstrap Root", _ranks(Kind.BOOTSTRAP)),
    ("Message truncated : received", _plain(Kind.BOOTSTRAP)),
    ("NCCL_COMM_ID", _plain(Kind.BOOTSTRAP)),
    ("wrong magic", _plain(Kind.SOCKET_ERROR)),
    ("wrong type", _plain(Kind.SOCKET_ERROR)),
    ("posix_fallocate", _plain(Kind.SHM)),
    ("Call to ", _socket_call),
    ("NVLS", _nvls),
    ("MNNVL", _plain(Kind.MNNVL)),
    ("IMEX", _plain(Kind.MNNVL)),
    ("P2P is disabled between", _plain(Kind.P2P_DISABLED)),
    ("failed to peer with device", _plain(Kind.P2P_DISABLED)),
    ("No transport found", _ranks(Kind.NO_TRANSPORT)),
    ("Duplicate GPU detected", _ranks(Kind.DUPLICATE_GPU)),
    ("using the same GPU", _ranks(Kind.DUPLICATE_GPU)),
    ("/dev/shm", _plain(Kind.SHM)),  # noqa: S108 - the path as the message names it; nothing is opened
    ("shared memory", _plain(Kind.SHM)),
    ("Cuda failure", _cuda),
    ("CUDA", _cuda),
    ("cudaIpc", _cuda),
    ("[Proxy Service", _ranks(Kind.PROXY)),
    ("NET plugin", _plain(Kind.NET_PLUGIN)),
    ("NET/OFI", _plain(Kind.NET_PLUGIN)),
    ("Error: network ", _plain(Kind.NET_PLUGIN)),
    ("RAS ", _ras),
)

_TELLING: tuple[_Rule, ...] = (
    ("retrying", _plain(Kind.CONNECT_RETRY, primary=False)),  # ordinary while peers start
    ("onnection closed by localRank", _local_rank),
    ("RAS declaring peer", _ras),
    ("RAS keep-alive timeout", _ras),
    ("timeout warning (", _ras),
    ("timeout error (", _ras),
    ("RAS failed to establish", _ras),
    ("a RAS initialization error", _ras),
    ("closed by peer on receive", _ras),
    ("P2P is disabled between", _plain(Kind.P2P_DISABLED)),
    ("Could not enable P2P between", _plain(Kind.P2P_DISABLED)),
    ("The error is not fatal", _plain(Kind.IB_DEVICE_FAILED)),
    ("Failed to open libibverbs", _plain(Kind.NET_UNAVAILABLE, primary=False)),
    ("GPU Direct RDMA Disabled", _plain(Kind.GDR_DISABLED, primary=False)),
    ("Got completion", _completion),
)
"""INFO lines that say something went wrong. What a healthy start prints is none: `NET/IB : No device found.`, plugins
that were not found, the fall-back to sockets."""

_TELLING_AT_ALL = re.compile("|".join(re.escape(needle) for needle, _ in _TELLING))

_FILES: tuple[tuple[str, Kind], ...] = (
    ("bootstrap.cc", Kind.BOOTSTRAP),
    ("nvls.cc", Kind.NVLS),
    ("mnnvl.cc", Kind.MNNVL),
    ("shmutils.cc", Kind.SHM),
    ("ibvwrap.cc", Kind.IB_QP),
    ("proxy.cc", Kind.PROXY),
    ("socket.cc", Kind.SOCKET_ERROR),
    ("plugin/net.cc", Kind.NET_PLUGIN),
    ("ras/", Kind.RAS),
)
"""The file speaks for texts that no rule knows."""


def classify(line: NcclLine) -> Classified | None:
    """The problem that a line reports, or None: INFO that tells nothing, and `file:line -> N` propagation."""
    if line.level is Level.INFO:
        if _TELLING_AT_ALL.search(line.message) is None:
            return None
        return _by_rule(_TELLING, line)
    if line.level not in (Level.WARN, Level.ATTN) or _PROPAGATION.match(line.message):
        return None
    found = _by_rule(_WARNINGS, line)
    if found is not None:
        return found
    kind = next((kind for needle, kind in _FILES if line.file and needle in line.file), Kind.OTHER)
    return Classified(kind, True, _peer(line.message), _said(line.message))


def _by_rule(rules: tuple[_Rule, ...], line: NcclLine) -> Classified | None:
    for needle, make in rules:
        if needle in line.message:
            return make(line)
    return None
