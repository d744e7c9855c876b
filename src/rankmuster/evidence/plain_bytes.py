"""A file as its machine left it -> the bytes that readers expect: UTF-8 without a mark, without a hole before the text.

PowerShell writes UTF-16 (`kubectl logs ... > file`), editors put a byte order mark first, and a log that was truncated
under its writer (logrotate's `copytruncate`) begins with as many NULs as it had bytes.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import replace

from rankmuster.evidence import text
from rankmuster.evidence.blob import Blob
from rankmuster.model.problem import Problem, ProblemKind

MAX_LOG_BYTES = 32 * 1024 * 1024
"""Of a text made of lines, read as two halves: the start names the ranks, the end tells the fault. 32 MiB are some
300,000 lines and take about four seconds; a log of months would take minutes that nobody has."""

_HOLE = bytes(4096)
_UTF16 = {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_WINDOW = 65_536
_DOCUMENT = re.compile(rb"\{|\[\s*[{\[]|<\?xml")


def plain(blob: Blob) -> tuple[Blob, Problem | None]:
    """The blob in UTF-8 and at most `MAX_LOG_BYTES` of it where it is a log; a Problem when something was left out."""
    data = blob.data
    if data.startswith(_HOLE):
        data = data.lstrip(b"\0")
    if data[:2] in _UTF16 and b"\0" in data[2:_WINDOW]:
        data = data[2:].decode(_UTF16[data[:2]], errors="replace").encode()
    data = data.removeprefix(codecs.BOM_UTF8)
    problem = None
    if len(data) > MAX_LOG_BYTES and is_log(data):
        problem = Problem(ProblemKind.DAMAGED, blob.path, left_out(len(data)))
        data = two_ends(data[: MAX_LOG_BYTES // 2], data[-(MAX_LOG_BYTES // 2) :])
    return (blob if data is blob.data else replace(blob, data=data)), problem


def is_log(head: bytes) -> bool:
    """Whether a large file is worth having without its middle: a text, and not one document of JSON or XML."""
    if not text.is_text(head):
        return False
    start = head[:_WINDOW].lstrip()
    first = start.split(b"\n", 1)[0].rstrip()
    return not _DOCUMENT.match(start) or (first.startswith(b"{") and first.endswith(b"}"))  # JSON lines are a log


def two_ends(head: bytes, tail: bytes) -> bytes:
    """Both cuts fall on line ends, so that no reader sees a line that nobody wrote."""
    return head[: head.rfind(b"\n") + 1] + tail[tail.find(b"\n") + 1 :]


def left_out(size: int) -> str:
    """The sentence for a log of `size` bytes."""
    return f"{size >> 20} MiB of log; only the first and last {MAX_LOG_BYTES >> 21} MiB were read"
