"""What a pod of an admission's Job says: its result in its log between two marks, and a summary with the result's hash
as its termination message.

The log is the only way out of a pod that may write nowhere and knows no password. Kubelets cut logs (10 MiB by
default) and anything may write between lines, so the result is packed, and is believed only where it has the hash that
the termination message (4096 bytes at most, kept with the pod's status) names. Pure.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

import zstandard

from rankmuster.adapters.kube.job_look import Payload
from rankmuster.report.inert import plain

SCHEMA = "rankmuster.admit-job/1"
BEGIN = b"-----BEGIN RANKMUSTER RESULT-----"
END = b"-----END RANKMUSTER RESULT-----"

MOST_MESSAGE = 4_096
"""Bytes of a termination message (Kubernetes' own limit for a container)."""

MOST_RESULT = 64 << 20
"""Of an unpacked result, as of a record."""

COLUMNS = 120
LEVEL = 10

_MOST_REASON = 1_000


class Ending(str, Enum):
    """How the pod's own work ended. LATE: its time was over. STOPPED: it was told to end."""

    DONE = "done"
    LATE = "late"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """A termination message. `sha256`, `size`: of the result, None where there is none."""

    kind: str
    node: str
    ending: Ending
    decision: str = ""
    reason: str = ""
    seal: str = ""
    sha256: str | None = None
    size: int = 0


class NotSaid(Exception):
    """What a pod left behind is nothing that can be believed; the message says why."""


def packed(payload: Payload) -> tuple[bytes, str, int]:
    """(the text for the log, with its marks; the result's sha256 in hex; its size)."""
    parts = {name: base64.b64encode(data).decode("ascii") for name, data in payload.parts.items()}
    values = {"schema": SCHEMA, "kind": payload.kind, "node": payload.node, "decision": payload.decision}
    values["reason"] = payload.reason[:_MOST_REASON]
    data = json.dumps({**values, "parts": parts}, sort_keys=True).encode("ascii")
    text = base64.b64encode(zstandard.ZstdCompressor(level=LEVEL).compress(data))
    lines = [text[place : place + COLUMNS] for place in range(0, len(text), COLUMNS)]
    return b"\n".join([BEGIN, *lines, END, b""]), hashlib.sha256(data).hexdigest(), len(data)


def result_of(payload: Payload, seal: str = "") -> tuple[bytes, Summary]:
    """(the text for the log; the summary that names it) of work that was done."""
    text, sha256, size = packed(payload)
    return text, Summary(
        kind=payload.kind,
        node=payload.node,
        ending=Ending.DONE,
        decision=payload.decision,
        reason=payload.reason,
        seal=seal,
        sha256=sha256,
        size=size,
    )


def message(summary: Summary) -> bytes:
    """As it is written; its reason is cut to what fits."""
    values: dict[str, Any] = {
        "schema": SCHEMA,
        "kind": summary.kind,
        "node": summary.node,
        "ending": summary.ending.value,
        "decision": summary.decision,
        "seal": summary.seal,
        "sha256": summary.sha256,
        "size": summary.size,
        "reason": plain(summary.reason, _MOST_REASON),
    }
    text = json.dumps(values)
    while len(text) > MOST_MESSAGE and values["reason"]:
        values["reason"] = values["reason"][: len(values["reason"]) // 2]
        text = json.dumps(values)
    return text.encode("ascii")[:MOST_MESSAGE]


def summary_of(text: str | None) -> Summary:
    """Raises NotSaid."""
    if not text:
        raise NotSaid("it left no termination message")
    try:
        values = json.loads(text[:MOST_MESSAGE])
        if not isinstance(values, dict) or values.get("schema") != SCHEMA:
            raise NotSaid(f"its termination message is of something else: {plain(text, 200)}")
        sha256, size = values.get("sha256"), values.get("size")
        return Summary(
            kind=str(values["kind"]),
            node=str(values["node"]),
            ending=Ending(values["ending"]),
            decision=str(values.get("decision", "")),
            reason=plain(values.get("reason", ""), _MOST_REASON),
            seal=str(values.get("seal", "")),
            sha256=sha256 if isinstance(sha256, str) else None,
            size=size if isinstance(size, int) else 0,
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise NotSaid(f"its termination message cannot be read: {plain(text, 200)}") from None


def unpacked(log: bytes, summary: Summary) -> Payload:
    """The result in a pod's log. Raises NotSaid where it is not the one that the summary names."""
    if summary.sha256 is None:
        raise NotSaid(f"it has no result: {summary.reason or summary.ending.value}")
    begin, end = log.rfind(BEGIN), log.rfind(END)
    if begin < 0 or end < begin:
        raise NotSaid("its log holds no whole result: it was cut, or something else wrote it")
    packed_lines = log[begin + len(BEGIN) : end]
    try:
        compressed = base64.b64decode(b"".join(packed_lines.split()), validate=True)
        with zstandard.ZstdDecompressor().stream_reader(io.BytesIO(compressed)) as reader:
            data = reader.read(MOST_RESULT + 1)
    except (binascii.Error, ValueError, zstandard.ZstdError) as error:
        raise NotSaid(f"the result in its log cannot be unpacked ({plain(error, 100)})") from None
    if len(data) > MOST_RESULT:
        raise NotSaid(f"the result in its log has more than {MOST_RESULT >> 20} MiB")
    if hashlib.sha256(data).hexdigest() != summary.sha256:
        raise NotSaid("the result in its log is not the one that its termination message names: another hash")
    return _payload(data)


def _payload(data: bytes) -> Payload:
    try:
        values = json.loads(data)
        parts: Mapping[str, str] = values["parts"]
        if values["schema"] != SCHEMA or not isinstance(parts, dict):
            raise NotSaid(f"the result in its log is of the schema {plain(values['schema'], 60)}, not {SCHEMA}")
        return Payload(
            kind=str(values["kind"]),
            node=str(values["node"]),
            decision=str(values["decision"]),
            reason=plain(values["reason"], _MOST_REASON),
            parts={str(name): base64.b64decode(text, validate=True) for name, text in parts.items()},
        )
    except (ValueError, KeyError, TypeError, RecursionError, binascii.Error) as error:
        raise NotSaid(f"the result in its log is of another form ({plain(repr(error), 100)})") from None
