"""Lines as a container's process wrote them, out of what its runtime made of them: CRI's form and docker's JSON.

CRI (kubelet's `/var/log/pods`): `2026-11-30T03:00:00.123456789Z stderr F text`, with P for a piece of a line that goes
on. Docker's json-file: `{"log":"text\\n","stream":"stderr","time":"..."}`, a piece without the line end.
"""

from __future__ import annotations

import json
import re

MAX_LINE = 64 << 10
"""Bytes of a line in pieces that are kept; runtimes cut at 16 KiB."""

_CRI = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]{8,18}(?:Z|[+\-]\d\d:\d\d) (stdout|stderr) ([FP])(?::\S{0,32})? ?([^\n]*)")
_DOCKER = re.compile(rb'\{"(?:log|stream|time|attrs)":')


class Unwrapper:
    """One file's. What is no wrapped line stays as it is."""

    def __init__(self) -> None:
        self._pieces: dict[bytes, bytes] = {}

    def take(self, data: bytes) -> bytes:
        """Whole lines in, whole lines out; pieces of a line wait for its end."""
        first = data[:4096].lstrip(b"\r\n")
        if not (_CRI.match(first) or _DOCKER.match(first)) and not self._pieces:
            return data
        return b"".join(self._line(line) for line in data.split(b"\n") if line)

    def _line(self, line: bytes) -> bytes:
        cri = _CRI.match(line)
        if cri:
            return self._ended(cri[1], cri[3].rstrip(b"\r"), whole=cri[2] == b"F")
        if not _DOCKER.match(line):
            return line + b"\n"
        try:
            record = json.loads(line)
            text, stream = record["log"], record.get("stream")
        except (ValueError, RecursionError, KeyError, TypeError):
            return line + b"\n"
        if not isinstance(text, str):
            return line + b"\n"
        said = text.encode("utf-8", "replace")
        name = stream.encode("utf-8", "replace")[:16] if isinstance(stream, str) else b""
        return self._ended(name, said.removesuffix(b"\n"), whole=said.endswith(b"\n"))

    def _ended(self, stream: bytes, piece: bytes, *, whole: bool) -> bytes:
        if len(self._pieces) > 8:  # names of streams that nobody gives
            self._pieces.clear()
        so_far = (self._pieces.pop(stream, b"") + piece)[:MAX_LINE]
        if whole:
            return so_far + b"\n"
        self._pieces[stream] = so_far
        return b""
