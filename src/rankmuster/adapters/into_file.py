"""A child process whose answer is larger than what is kept of an output: its standard output goes into a file.

Records and bundles have megabytes; what is said on standard error stays in memory, bounded, for why it failed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from rankmuster.adapters.child import Ran, run_child
from rankmuster.collect.deadline import Clock
from rankmuster.collect.strip.secrets import scrub_secrets
from rankmuster.report.inert import plain

ROOT = "/"
"""Where children run: in a folder that others may write, `python -m` would import what they have put there."""


def run_into(
    path: Path,
    command: Sequence[str],
    *,
    seconds: float,
    grace: float,
    clock: Clock,
    most_bytes: int,
    stdin: bytes = b"",
    environ: Mapping[str, str] | None = None,
) -> Ran:
    """As `run_child`, which see; `output` is standard error alone. `hurried`: it wrote more than `most_bytes`.

    The file is new, and only its owner may read it. Never raises for expected trouble.
    """
    try:
        path.unlink(missing_ok=True)
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return Ran(None, 0.0, problem=f"{path} cannot be written ({error.strerror or error})")
    return run_child(
        ["/bin/sh", "-c", 'exec "$@" >"$0"', str(path), *command],
        seconds=seconds,
        grace=grace,
        clock=clock,
        hurry=lambda: _size(path) > most_bytes,
        stdin=stdin,
        environ=environ,
        cwd=ROOT,
        step_back=False,
        whole_group=True,
    )


def read_most(path: Path, most_bytes: int) -> bytes | None:
    """The file's bytes; None where it cannot be read or has more."""
    try:
        with path.open("rb") as file:
            data = file.read(most_bytes + 1)
    except OSError:
        return None
    return data if len(data) <= most_bytes else None


def last_words(ran: Ran) -> str:
    """The last line that a child said, inert and without secrets; how it ended where it said nothing."""
    text = scrub_secrets(ran.output[-8192:]).decode("utf-8", "replace")
    lines = [line for line in text.splitlines() if line.strip()]
    if lines:
        return plain(lines[-1].removeprefix("rankmuster: "), 300)
    if ran.status is None:
        return ran.problem or "it could not be ended"
    return f"signal {-ran.status}" if ran.status < 0 else f"exit status {ran.status}"


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
