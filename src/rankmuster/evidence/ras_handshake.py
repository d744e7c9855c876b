"""The answers that may stand before a RAS reply when a client sent CLIENT PROTOCOL, TIMEOUT or SET FORMAT first."""

from __future__ import annotations

import re

_ANSWER = re.compile(r"(?:SERVER PROTOCOL \d{1,9}|OK|(?:ERROR|BUSY): .{1,1000})\s*")
_SOFT_ERROR = re.compile(r"ERROR: (?:Unknown command|Invalid (?:format|timeout value|event group))")


def is_answer(line: str) -> bool:
    """Whether `line` is `OK`, `SERVER PROTOCOL 2`, `ERROR: ...` or `BUSY: ...` (NCCL src/ras/client_support.cc)."""
    return _ANSWER.fullmatch(line) is not None


def is_refusal(line: str) -> bool:
    """Whether `line` says that the request itself was refused, not merely an option that old releases lack."""
    return line.startswith(("ERROR: ", "BUSY: ")) and _SOFT_ERROR.match(line) is None


def body_offset(text: str) -> int:
    """Where the reply itself begins, in characters: behind answers and blank lines."""
    offset = 0
    while offset < len(text):
        end = text.find("\n", offset)
        line = text[offset:] if end < 0 else text[offset:end]
        if line.strip() and not is_answer(line.strip()):
            break
        offset = len(text) if end < 0 else end + 1
    return offset
