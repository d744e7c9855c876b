"""The single lines of a RAS text report, by their format strings in NCCL src/ras/client_support.cc (2.24 to 2.32)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from rankmuster.evidence.ras_result import name_of_phrase
from rankmuster.model.ras import RasProcess

# Numbers of more than 20 digits fit no 64-bit integer: such a line is not NCCL's.
_N = r"(-?\d{1,20})"
_RANK = re.compile(rf"\s*Rank {_N}(?: (?!--)(.{{1,200}}?))? -- (.*)")
_CROWD = re.compile(rf"\s*{_N} ranks (have|reported) (.{{1,200}})")
_STATUS = re.compile(r"ha(?:s|ve) status ([A-Z]{1,20})")
_LAUNCHED = re.compile(rf"ha(?:s|ve) launched up to operation {_N}")
_PLACE = re.compile(rf"GPU {_N}(?: \(NVML {_N}\))? managed by process {_N} on node(?: (\S*))?\s*")
_PROCESS = re.compile(rf"\s*Process {_N} on node (\S*) managing GPUs? ([\d,]*)(?: \(NVML ([\d,]*)\))?\s*")
_MISSING_LIST = re.compile(r"\s*The missing ranks?: ([-\d,]+)")
_HEADER = re.compile(rf"#{_N}-{_N} \(([0-9a-f]{{1,16}})\) (INCOMPLETE|ERROR|MISMATCH)\s*")
_BLOCK = re.compile(r"\s*Communicator ranks have different (?:(status)|(\w{1,40}) operation counts)\s*")
_UNKNOWN_PLACE = "[process information not found]"
_NOTHING = ("has not launched any operations", "have not launched any operations")


class Topic(str, Enum):
    """What a line says of its ranks."""

    STATUS = "status"
    ERROR = "error"
    COUNT = "count"


@dataclass(frozen=True, slots=True)
class Statement:
    """`value`: a status, the name of an ncclResult, or how many operations were launched."""

    topic: Topic
    value: str | int


@dataclass(frozen=True, slots=True)
class RankLine:
    """`  Rank 2 has launched up to operation 150 -- GPU 2 managed by process 5892 on node 10.0.0.7`.

    `statement` None: a member of the crowd announced by the line above, or a missing rank.
    """

    rank: int
    statement: Statement | None
    host: str | None = None
    pid: int | None = None
    gpu: int | None = None
    nvml: int | None = None


@dataclass(frozen=True, slots=True)
class CrowdLine:
    """`  3 ranks have launched up to operation 151`."""

    ranks: int
    statement: Statement


@dataclass(frozen=True, slots=True)
class HeaderLine:
    """`#0-0 (e2ea29289b106d20) MISMATCH`."""

    group: int
    index: int
    hash: int
    kind: str


def rank_line(line: str) -> RankLine | None:
    """One rank, if the line is whole."""
    match = _RANK.fullmatch(line)
    if match is None:
        return None
    rank, said, place = match.groups()
    statement = _statement(said) if said else None
    if said and statement is None:
        return None
    if place.strip() == _UNKNOWN_PLACE:
        return RankLine(int(rank), statement)
    where = _PLACE.fullmatch(place)
    if where is None:
        return None
    gpu, nvml, pid, host = where.groups()
    return RankLine(int(rank), statement, host or None, int(pid), int(gpu), int(nvml if nvml is not None else gpu))


def crowd_line(line: str) -> CrowdLine | None:
    """Several ranks that share a status, an error or a count."""
    match = _CROWD.fullmatch(line)
    if match is None:
        return None
    statement = _statement(f"{match.group(2)} {match.group(3)}".rstrip())
    return CrowdLine(int(match.group(1)), statement) if statement else None


def header_line(line: str) -> HeaderLine | None:
    """The line that opens what the report says of one communicator."""
    match = _HEADER.fullmatch(line)
    if match is None:
        return None
    group, index, digits, kind = match.groups()
    return HeaderLine(int(group), int(index), int(digits, 16), kind)


def block_line(line: str) -> tuple[Topic, str | None] | None:
    """`Communicator ranks have different status`, or `... different AllReduce operation counts` with its operation."""
    match = _BLOCK.fullmatch(line)
    if match is None:
        return None
    return (Topic.STATUS, None) if match.group(1) else (Topic.COUNT, match.group(2))


def process_line(line: str) -> RasProcess | None:
    """A missing or dead process."""
    match = _PROCESS.fullmatch(line)
    if match is None:
        return None
    pid, host, gpus, nvml = match.groups()
    devices = numbers(gpus)
    return RasProcess(host or None, int(pid), devices, numbers(nvml) if nvml is not None else devices)


def missing_list(line: str) -> tuple[int, ...] | None:
    """The ranks of `  The missing ranks: 1,2,3` (NCCL 2.24 and 2.25)."""
    match = _MISSING_LIST.match(line)
    return numbers(match.group(1)) if match else None


def numbers(listing: str) -> tuple[int, ...]:
    """Of `0,1,4`; what is no 64-bit number is left out."""
    return tuple(int(item) for item in listing.split(",") if re.fullmatch(_N, item))


def _statement(said: str) -> Statement | None:
    if said in _NOTHING:
        return Statement(Topic.COUNT, 0)
    launched = _LAUNCHED.fullmatch(said)
    if launched:
        return Statement(Topic.COUNT, int(launched.group(1)))
    status = _STATUS.fullmatch(said)
    if status:
        return Statement(Topic.STATUS, status.group(1))
    if said.startswith("reported "):
        return Statement(Topic.ERROR, name_of_phrase(said[len("reported ") :]))
    return None
