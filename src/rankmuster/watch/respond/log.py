"""What the children of one stop said, in one bounded file beside the bundle, without secrets."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from pathlib import Path

from rankmuster.adapters.child import Ran
from rankmuster.collect.strip.secrets import scrub_secrets
from rankmuster.report.inert import plain
from rankmuster.watch.respond.places import LOG, MAX_LOG_BYTES

LAST_CHARACTERS = 300
"""Of the end of what a child said, for the reason why it failed."""


def write_log(folder: Path | None, step: str, ran: Ran, at: float) -> None:
    """Adds it to the log, as far as there is room. A log that cannot be written is no reason to fail."""
    if folder is None:
        return
    try:
        stamp = datetime.fromtimestamp(at, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, OSError, ValueError):
        stamp = "unknown time"
    how = ran.problem or f"exit status {ran.status}{', ended from here' if ran.late else ''}"
    head = f"== {stamp} {step}: {how}, {ran.seconds:.1f} s\n".encode("utf-8", "backslashreplace")
    data = head + scrub_secrets(ran.output)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(folder / LOG, flags, 0o600)
        try:
            room = MAX_LOG_BYTES - os.fstat(descriptor).st_size
            if room > 0:
                os.write(descriptor, data[: room - 1] + (b"" if data.endswith(b"\n") else b"\n"))
        finally:
            os.close(descriptor)
    except OSError:
        return


def last_words(ran: Ran) -> str:
    """The last line that a child said, inert and without secrets; empty where it said nothing."""
    lines = [one for one in scrub_secrets(ran.output[-8192:]).decode("utf-8", "replace").splitlines() if one.strip()]
    return plain(lines[-1].removeprefix("rankmuster: "), LAST_CHARACTERS) if lines else ""
