"""RAS replies in JSON, of NCCL 2.28.7 and later (NCCL src/ras/client_support.cc, rasDumpCommsToJSON)."""

from __future__ import annotations

import math
import re
from dataclasses import replace

from rankmuster.evidence import names, text, times
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.ras_handshake import body_offset
from rankmuster.evidence.ras_json_text import objects
from rankmuster.evidence.ras_result import name_of_code
from rankmuster.evidence.ras_sanity import corruption, disbelief, is_bogus_zero
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import OPERATIONS, RasCommunicator, RasMissingRank, RasPoll, RasRank

_FIRST_KEY = "nccl_version"
_OWN_KEYS = ('"communicators"', '"communicators_count"', '"cuda_runtime_version"')
_HASH = re.compile(r"0[xX][0-9a-fA-F]{1,16}")
_NO_PROCESS = -1
_NO_HOST = "unknown"
_STATUS_KEYS = ("init_state", "finalize_called", "destroy_flag", "abort_flag")


def _recognises(blob: Blob) -> bool:
    if b'"nccl_version"' not in blob.data[:8192]:
        return False
    head = text.head(blob.data)
    body = head[body_offset(head) :].lstrip("\ufeff \t\r\n")
    return body.startswith("{") and any(key in body for key in _OWN_KEYS)


def _read(blob: Blob) -> Reading:
    content = text.clean(blob.data.decode("utf-8", errors="replace"))
    polls: list[RasPoll] = []
    problems: list[Problem] = []
    lost: list[int] = []
    for found in objects(content, _FIRST_KEY):
        if found.value is None or not _is_reply(found.value):
            lost.append(found.start)
            continue
        poll, dropped = _poll(found.value, blob.path, cut=not found.whole)
        if not polls:
            # The file's own time is that of its first reply; the others have their own stamps.
            poll = replace(poll, time=names.time_of(blob.path))
        polls.append(poll)
        problems += _problems(poll, dropped)
    if lost:
        message = (
            f"{len(lost)} pieces, the first at character {lost[0]}, are no RAS reply; {len(polls)} others were read"
        )
        problems.append(Problem(ProblemKind.DAMAGED, blob.path, message))
    return Reading(tuple(polls), tuple(problems), len(polls))


def _is_reply(value: dict[str, object]) -> bool:
    return _FIRST_KEY in value or "communicators" in value


def _problems(poll: RasPoll, dropped: int) -> list[Problem]:
    found = disbelief(poll)
    if poll.truncated:
        message = f"the RAS reply ends early; {len(poll.communicators)} communicators before that were read"
        found.append(Problem(ProblemKind.DAMAGED, poll.source, message))
    if dropped:
        message = f"{dropped} entries without hash or size left out (NCCL lists them while communicators come and go)"
        found.append(Problem(ProblemKind.DAMAGED, poll.source, message))
    return found


def _poll(value: dict[str, object], source: str, *, cut: bool) -> tuple[RasPoll, int]:
    entries = _objects(value.get("communicators"))
    communicators = [made for made in map(_communicator, entries) if made is not None]
    listed = value.get("communicators")
    empty = isinstance(listed, list) and not listed and (not cut or value.get("communicators_count") == 0)
    ras = value.get("ras")
    ras = ras if isinstance(ras, dict) else {}
    version, stamp = value.get("nccl_version"), value.get("timestamp")
    poll = RasPoll(
        source=source,
        time=None,
        node=names.node_of(source),
        form="json",
        nccl_version=version if isinstance(version, str) else None,
        stamp=times.iso(stamp[:64]) if isinstance(stamp, str) else None,
        communicators=tuple(communicators),
        no_communicators=empty,
        timeouts=_integer(ras.get("timeouts_count")) or 0,
        collection_seconds=_seconds(ras.get("collection_time_sec")),
        truncated=cut,
    )
    return replace(poll, corrupt=corruption(poll)), len(entries) - len(communicators)


def _communicator(entry: dict[str, object]) -> RasCommunicator | None:
    identity, size = _hash(entry.get("hash")), _integer(entry.get("size"))
    ranks = tuple(rank for rank in map(_rank, _objects(entry.get("ranks"))) if rank is not None)
    missing = tuple(rank for rank in map(_missing, _objects(entry.get("missing_ranks"))) if rank is not None)
    stated = _integer(entry.get("missing_ranks_count")) or 0
    if identity is None or (is_bogus_zero(identity, size) and not ranks and not missing and not stated):
        return None
    secondary = entry.get("secondary_hash")
    return RasCommunicator(
        hash=identity,
        size=size,
        ranks=ranks,
        missing=missing,
        missing_count=max(stated, len(missing)),
        secondary_hash=secondary if isinstance(secondary, str) else None,
    )


def _rank(entry: dict[str, object]) -> RasRank | None:
    rank = _integer(entry.get("rank"))
    if rank is None:
        return None
    state = entry.get("status")
    state = state if isinstance(state, dict) else {}
    counts = entry.get("collective_counts")
    counts = counts if isinstance(counts, dict) else {}
    return RasRank(
        rank=rank,
        host=_host(entry.get("host")),
        pid=_pid(entry.get("pid")),
        cuda_dev=_integer(entry.get("cuda_dev")),
        nvml_dev=_integer(entry.get("nvml_dev")),
        status=_status(state),
        async_error=name_of_code(_integer(state.get("async_error"))),
        counts={name: count for name in OPERATIONS if (count := _integer(counts.get(name))) is not None},
        init_error=name_of_code(_integer(state.get("init_state"))),
    )


def _missing(entry: dict[str, object]) -> RasMissingRank | None:
    rank = _integer(entry.get("rank"))
    if rank is None:
        return None
    state = entry.get("status")
    state = state if isinstance(state, dict) else {}
    unresponsive, dead = state.get("unresponsive"), state.get("considered_dead")
    return RasMissingRank(
        rank=rank,
        host=_host(entry.get("host")),
        pid=_pid(entry.get("pid")),
        cuda_dev=_integer(entry.get("cuda_dev")),
        nvml_dev=_integer(entry.get("nvml_dev")),
        unresponsive=unresponsive if isinstance(unresponsive, bool) else None,
        considered_dead=dead if isinstance(dead, bool) else None,
    )


def _status(state: dict[str, object]) -> str | None:
    # The order in which NCCL itself decides for its text report.
    if state.get("abort_flag") is True:
        return "ABORT"
    if any(key not in state for key in _STATUS_KEYS):
        return None
    if state["finalize_called"] is True or state["destroy_flag"] is True:
        return "FINALIZE"
    return "RUNNING" if _integer(state["init_state"]) == 0 else "INIT"


def _objects(value: object) -> list[dict[str, object]]:
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def _integer(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _seconds(value: object) -> float | None:
    number = float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
    return number if number is not None and math.isfinite(number) else None


def _host(value: object) -> str | None:
    return value if isinstance(value, str) and value not in ("", _NO_HOST) else None


def _pid(value: object) -> int | None:
    pid = _integer(value)
    return None if pid == _NO_PROCESS else pid


def _hash(value: object) -> int | None:
    if isinstance(value, str):
        return int(value, 16) if _HASH.fullmatch(value) else None
    number = _integer(value)
    return number if number is not None and 0 <= number < 1 << 64 else None


READER = Reader(
    name="NCCL RAS JSON reply", plane=Plane.RAS, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
