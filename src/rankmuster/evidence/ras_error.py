"""The record that RAS was asked and no report came.

Three kinds of file say so: the exception of the socket that waited, written as Python shows it; the complaint of
`ncclras` or `nc`; and a reply that ends behind the handshake, or is empty. An empty file says nothing by itself: only
one that is named as replies are (`<unix time>-<node>.txt` or `.json`) counts as an unanswered question.
"""

from __future__ import annotations

import re

from rankmuster.evidence import names, text
from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.ras_handshake import is_answer, is_refusal
from rankmuster.model.plane import Plane
from rankmuster.model.problem import Problem, ProblemKind
from rankmuster.model.ras import RasPoll

MAX_BYTES = 2048
"""Of a file that holds an exception alone; anything longer is a log."""

MAX_LINES = 4
"""Lines of such a file; the client tools complain once per address that they tried."""

MAX_ERROR = 300
"""Characters of the error that are kept."""

_EXCEPTION = re.compile(
    r"(?:[A-Za-z_]{1,30}\.){0,3}"
    r"(?:TimeoutError|ConnectionRefusedError|ConnectionResetError|ConnectionAbortedError|ConnectionError"
    r"|BrokenPipeError|OSError|IncompleteReadError|EOFError|BlockingIOError|gaierror|herror|timeout)"
    r"(?:\(.*\)|: .*)"
)
_COMPLAINTS = (
    "Failed to connect to the NCCL RAS service",
    "NCCL unexpectedly closed the connection",
    "Unexpected response from NCCL",
    "Connection timed out; retrying",
    "nc: ",
    "Ncat: ",
    "(UNKNOWN) [",
)
_CONNECTING = re.compile(r"Connecting to \S{1,200}: .*")  # perror() of ncclras
_REPLY_ENDINGS = (".txt", ".json")


def _recognises(blob: Blob) -> bool:
    return len(blob.data) <= MAX_BYTES and _error(blob) is not None


def _error(blob: Blob) -> str | None:
    """What went wrong; None where the file is no such record."""
    lines = [line.strip() for _, line in text.lines(blob.data[:MAX_BYTES]) if line.strip()]
    if not lines:
        named = names.node_of(blob.path) is not None and blob.path.endswith(_REPLY_ENDINGS)
        return "the reply is empty" if named and not blob.data.strip(b"\0 \t\r\n") else None
    rest = [line for line in lines if not is_answer(line)]
    if not rest:
        refusals = [line for line in lines if is_refusal(line)]
        if refusals:
            return refusals[0]
        # An "OK" or an "ERROR: ..." alone could be anybody's.
        greeted = any(line.startswith("SERVER PROTOCOL") for line in lines)
        return "only the handshake was answered, no report followed" if greeted else None
    if len(rest) > MAX_LINES or not all(_is_complaint(line) for line in rest):
        return None
    return rest[-1]


def _is_complaint(line: str) -> bool:
    return any(shape.fullmatch(line) for shape in (_EXCEPTION, _CONNECTING)) or line.startswith(_COMPLAINTS)


def _read(blob: Blob) -> Reading:
    error = _error(blob)
    if error is None:
        message = "no record of an unanswered RAS query after all; nothing was read"
        return Reading(problems=(Problem(ProblemKind.DAMAGED, blob.path, message),))
    poll = RasPoll(
        source=blob.path,
        time=names.time_of(blob.path),
        node=names.node_of(blob.path),
        form="none",
        answered=False,
        error=error[:MAX_ERROR],
    )
    return Reading((poll,), (), 1)


READER = Reader(
    name="NCCL RAS without a reply", plane=Plane.RAS, kind=ReaderKind.DOCUMENT, recognises=_recognises, read=_read
)
