"""A file of HTTP headers (`Authorization: Bearer ...`), which keeps secrets out of configurations and messages."""

from __future__ import annotations

import os
import stat
from pathlib import Path

MAX_HEADER_FILE = 64 << 10
"""Bytes of a file of headers: servers take 8 to 32 KiB of them."""


class BadHeaders(Exception):
    """It cannot be used; the message says why and quotes nothing of it."""


def read_headers(path: Path | None) -> dict[str, str]:
    """Lines `Name: value`; empty ones and those that begin with # are left out. None: no headers. Raises BadHeaders."""
    if path is None:
        return {}
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise BadHeaders(f"the file of headers {path} is no regular file")
            data = file.read(MAX_HEADER_FILE + 1)
    except OSError as error:
        raise BadHeaders(f"the file of headers {path} cannot be read ({error.strerror or error})") from error
    if len(data) > MAX_HEADER_FILE:
        raise BadHeaders(f"the file of headers {path} has more than {MAX_HEADER_FILE >> 10} KiB")
    found: dict[str, str] = {}
    for number, line in enumerate(data.decode("utf-8-sig", "replace").splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        name, colon, value = line.partition(":")
        good = colon and name and all(one.isascii() and (one.isalnum() or one in "-_") for one in name)
        if not good or not value.strip().isprintable() or not value.isascii():
            raise BadHeaders(f"line {number} of the file of headers {path} is no header (wanted is `Name: value`)")
        found[name] = value.strip()
    return found
