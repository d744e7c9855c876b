"""The INFO messages that state facts: init, interfaces, transports, settings, tuning, calls (NCCL src, 2.4 to 2.32).

Each function takes a line and its origin and returns an observation, or None where the message is another one or was
cut. The order in `observation` is that of frequency: a log at level COLL has a hundred thousand calls.
"""

from __future__ import annotations

import re
from sys import intern

from rankmuster.evidence.nccl_line import Level, NcclLine
from rankmuster.model.nccllog import (
    InitPhase,
    LogOrigin,
    NcclCall,
    NcclInit,
    NcclInterface,
    NcclSetting,
    NcclTransport,
    NcclTuning,
    NcclVersionLine,
)

ALGORITHMS = ("Tree", "Ring", "CollNetDirect", "CollNetChain", "NVLS", "NVLSTree", "PAT")
"""NCCL_ALGO_* in the order of nccl_common.h; up to 2.22 tuning lines carry the number."""

PROTOCOLS = ("LL", "LL128", "Simple")
"""NCCL_PROTO_* in the order of nccl_common.h."""

COMM_ID_DIGITS = 16
"""commId is a 64-bit hash that NCCL prints without leading zeros; RAS prints the same number."""

_POINTER = r"(?:0x[0-9a-fA-F]{1,16}|\(nil\))"
_CALL = re.compile(
    rf"(\w{{1,40}}): opCount ([0-9a-f]{{1,16}}) sendbuff {_POINTER} recvbuff {_POINTER} count (\d{{1,20}}) "
    rf"datatype (-?\d{{1,9}}) op (-?\d{{1,9}}) root (-?\d{{1,9}}) comm ({_POINTER})"
    r"(?: \[nranks=(\d{1,9})\])?(?= stream)"
)
_API_CALL = re.compile(
    r"^nccl(\w{1,40})\([0-9a-f]{1,16},[0-9a-f]{1,16},(\d{1,20}),(-?\d{1,9}),(-?\d{1,9}),(-?\d{1,9}),"
    rf"({_POINTER}),{_POINTER}\)"
)
_ALGO = re.compile(
    r"^(?:(\w{1,40}): )?(\d{1,20}) Bytes -> Algo (\w{1,40}) proto (\w{1,40})"
    r"(?: channel\{Lo\.\.Hi\}=\{(\d{1,4})\.\.(\d{1,4})\})?"
)
_KERNEL = re.compile(
    r"^(?:(\w{1,40}) )?\[([\w ]{1,40})\]: (\d{1,20}) Bytes -> (?:Kernel )?(\w{1,80})(?: nchannels (\d{1,4}))?"
)
_CHANNEL = re.compile(
    r"^Channel (\d{1,6})(?:/\d{1,6})? : (\d{1,9})\[(\w{1,16})\] -> (\d{1,9})\[(\w{1,16})\]"
    r"(?: \[(send|receive)\])? via (.{1,200}?)(?: comm 0x[0-9a-f]{1,16} nRanks \d{1,9})?\s*$"
)
_COLLNET = re.compile(r"^CollNet (\d{1,6})/\d{1,6} : (\d{1,9}) \[(send|receive)\] via (.{1,200}?)\s*$")
_INIT = re.compile(
    r"^(?:\[Rank \d{1,9}\] )?(?:(\w{1,60}) )?comm (0x[0-9a-f]{1,16}) rank (\d{1,9}) n[rR]anks (\d{1,9}) "
    r"cudaDev (-?\d{1,6})(?: nvmlDev (-?\d{1,6}))?(?: busId (?:0x)?([0-9a-f]{1,12}))?"
    r"(?P<rest>.{0,200}?) ?- (?P<phase>Init START|Init COMPLETE|Destroy|Abort|Revoke)"
)
_COMM_ID = re.compile(r"\bcommId (?:0x)?([0-9a-f]{1,16})\b")
_PARENT = re.compile(r"\bparent (0x[0-9a-f]{1,16})\b")
_COLOR = re.compile(r"\bcolor (-?\d{1,12})\b")
_SETTING = re.compile(r"^(NCCL_\w{1,80}) set (?:by environment )?to (.{0,400}?)\s*$")
_NUMBER = re.compile(r"-?\d{1,20}\.")
_VERSION = re.compile(r"^NCCL version (\d{1,4}\.\d{1,4}(?:\.\d{1,4})?)[^+\s]{0,40}(?:\+cuda(\d{1,3}(?:\.\d{1,3})?))?")
_USING = re.compile(r"^(Bootstrap|NET/Socket|NET/IB) ?: ?Using (.{1,2000})$")
_INTERFACE = re.compile(r"(?:\[\d{1,4}\])?([^\s:\[\]<>]{1,64}):([^\s<>]{1,64})<\d{1,5}>")
_HCA = re.compile(r"\[\d{1,4}\]([^\s\[\];]{1,64})")
_RAS_SOCKET = re.compile(r"^RAS network listening socket at (([^\s<>]{1,255})<\d{1,5}>)")
_NETWORK = re.compile(r"^Using network (.{1,80}?)\s*$")

_ROLES = {"Bootstrap": "bootstrap", "NET/Socket": "socket", "NET/IB": "ib"}
_PHASES = {
    "Init START": InitPhase.START,
    "Init COMPLETE": InitPhase.COMPLETE,
    "Destroy": InitPhase.DESTROY,
    "Abort": InitPhase.ABORT,
    "Revoke": InitPhase.ABORT,
}

Fact = NcclCall | NcclInit | NcclInterface | NcclSetting | NcclTransport | NcclTuning | NcclVersionLine


def _int(text: str | None) -> int | None:
    return int(text) if text else None


def call(line: NcclLine, origin: LogOrigin) -> NcclCall | None:
    """A COLL line."""
    match = _CALL.search(line.message)
    if match is None:
        return None
    op, op_count, count, datatype, redop, root, comm, nranks = match.groups()
    return NcclCall(
        origin,
        intern(op),
        int(op_count, 16),
        int(count),
        int(datatype),
        int(redop),
        int(root),
        intern(comm),
        _int(nranks),
    )


def api_call(line: NcclLine, origin: LogOrigin) -> NcclCall | None:
    """A CALL or TRACE line, `ncclAllReduce(send,recv,count,datatype,op,root,comm,stream)`: no operation count."""
    match = _API_CALL.match(line.message)
    if match is None:
        return None
    op, count, datatype, redop, root, comm = match.groups()
    return NcclCall(origin, intern(op), 0, int(count), int(datatype), int(redop), int(root), intern(comm), None)


def _named(text: str, names: tuple[str, ...]) -> str:
    return names[int(text)] if text.isdigit() and int(text) < len(names) else text


def tuning(line: NcclLine, origin: LogOrigin) -> NcclTuning | None:
    """A TUNING line; symmetric kernels and copy engines give the kernel as algorithm and their name as protocol."""
    match = _ALGO.match(line.message)
    if match is not None:
        op, size, algorithm, protocol, low, high = match.groups()
        channels = (int(low), int(high)) if low and high else None
        return NcclTuning(origin, op, int(size), _named(algorithm, ALGORITHMS), _named(protocol, PROTOCOLS), channels)
    match = _KERNEL.match(line.message)
    if match is None:
        return None
    op, protocol, size, algorithm, count = match.groups()
    return NcclTuning(origin, op, int(size), algorithm, protocol, (0, int(count) - 1) if count else None)


def transport(line: NcclLine, origin: LogOrigin) -> NcclTransport | None:
    """A channel's connection; of a CollNet one both ends are the rank itself, the peer is the network."""
    match = _CHANNEL.match(line.message)
    if match is not None:
        channel, src, src_dev, dst, dst_dev, direction, via = match.groups()
        return NcclTransport(
            origin, int(channel), int(src), int(dst), intern(src_dev), intern(dst_dev), direction, intern(via)
        )
    match = _COLLNET.match(line.message)
    if match is None:
        return None
    channel, rank, direction, via = match.groups()
    return NcclTransport(origin, int(channel), int(rank), int(rank), None, None, direction, intern(via))


def init(line: NcclLine, origin: LogOrigin) -> NcclInit | None:
    """Init START or COMPLETE, and the ends: Destroy, Abort, Revoke."""
    match = _INIT.match(line.message)
    if match is None:
        return None
    name, comm, rank, nranks, cuda_dev, nvml_dev, bus_id = match.groups()[:7]
    rest = match["rest"]
    comm_id, parent, color = _COMM_ID.search(rest), _PARENT.search(rest), _COLOR.search(rest)
    return NcclInit(
        origin,
        _PHASES[match["phase"]],
        intern(comm),
        int(rank),
        int(nranks),
        _int(cuda_dev),
        _int(nvml_dev),
        bus_id,
        comm_id[1].zfill(COMM_ID_DIGITS) if comm_id else None,
        parent[1] if parent else None,
        int(color[1]) if color else None,
        name,
    )


def setting(line: NcclLine, origin: LogOrigin) -> NcclSetting | None:
    """`NCCL_X set by environment to Y`; numbers are printed with a full stop, strings without."""
    match = _SETTING.match(line.message)
    if match is None:
        return None
    name, value = match.groups()
    return NcclSetting(origin, name, value[:-1] if _NUMBER.fullmatch(value) else value)


def version(line: NcclLine, origin: LogOrigin) -> NcclVersionLine | None:
    """The bare version line, and the INFO line that 2.20 and later print in every process."""
    match = _VERSION.match(line.message)
    return NcclVersionLine(origin, match[1], match[2]) if match else None


def interface(line: NcclLine, origin: LogOrigin) -> NcclInterface | None:
    """What bootstrap and transports chose; `role` "network" holds the name of the transport that the job uses."""
    network = _NETWORK.match(line.message)
    if network is not None:
        return NcclInterface(origin, "network", ((network[1], None),))
    match = _USING.match(line.message)
    if match is None:
        return None
    role = _ROLES[match[1]]
    if role == "ib":
        # After the devices stands the socket interface that IB sets its connections up over: no data goes there.
        devices = match[2].partition("OOB ")[0]
        found: tuple[tuple[str, str | None], ...] = tuple((name, None) for name in _HCA.findall(devices))
    else:
        found = tuple((name, address) for name, address in _INTERFACE.findall(match[2]))
    return NcclInterface(origin, role, found) if found else None


def ras_socket(line: NcclLine, origin: LogOrigin) -> NcclInterface | None:
    """Where this process's RAS listens: the name by which the RAS lines of all others call it, port and all."""
    match = _RAS_SOCKET.match(line.message)
    return NcclInterface(origin, "ras", ((match[1], match[2]),)) if match else None


def observation(line: NcclLine, origin: LogOrigin) -> Fact | None:
    """The fact that an INFO (or bare version) line states."""
    message = line.message
    if "opCount " in message:
        return call(line, origin)
    if " Bytes -> " in message:
        return tuning(line, origin)
    if " via " in message:
        return transport(line, origin)
    if " comm 0x" in message or message.startswith("comm 0x"):
        return init(line, origin)
    if " set " in message:
        return setting(line, origin)
    if "Using " in message:
        return interface(line, origin)
    if message.startswith("RAS "):
        return ras_socket(line, origin)
    if line.level is Level.VERSION or message.startswith("NCCL version "):
        return version(line, origin)
    return None
