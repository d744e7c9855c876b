"""RAS's own diagnostics across ranks (`DIAGNOSTICS`, NCCL 2.31.2 and later): read-only, text, one at a time a job."""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.attempts import NoAnswer
from rankmuster.collect.ras.client import Broken, Ended, Service
from rankmuster.collect.ras.namespace import NamespaceClosed

MAX_DIAGNOSTICS = 4 << 20
"""Bytes: some 100 a line, a few lines a communicator and check."""

DIAGNOSTICS_SECONDS = 10.0
"""It asks every peer once, as a report does, and that takes at most 5 s and 5 s on top."""

_KNOWS = "ERROR: Unknown CONTROL subcommand"


@dataclass(frozen=True, slots=True)
class Diagnostics:
    """`data`: the report, empty where there is none. `at`: unix seconds. `note`: how it went, a few words."""

    at: float
    data: bytes
    note: str


def ask_diagnostics(service: Service, deadline: Deadline) -> Diagnostics:
    """Asks once; never raises, and never waits for one that somebody else has started."""
    at = service.now()
    until = deadline.within(DIAGNOSTICS_SECONDS)
    try:
        with service.open(until) as session:
            # The process that answers this connection may be of another job: one that does not know the command would
            # complain and keep the connection open.
            if not session.ask("CONTROL x", until).startswith(_KNOWS):
                return Diagnostics(at, b"", "whoever answered does not know the command")
            reply = session.report("DIAGNOSTICS", until, max_bytes=MAX_DIAGNOSTICS, clock=service.clock)
    except (NoAnswer, Broken, NamespaceClosed) as error:
        return Diagnostics(at, b"", f"none ({error})")
    first = reply.data[:200].partition(b"\n")[0].decode("ascii", errors="backslashreplace").rstrip("\r")
    if first.startswith(("BUSY:", "ERROR:")):
        return Diagnostics(at, b"", f"refused ({first})")
    if not reply.data:
        return Diagnostics(at, b"", f"none came ({reply.detail or reply.ended.value})")
    return Diagnostics(at, reply.data, "taken" if reply.ended is Ended.WHOLE else f"cut ({reply.ended.value}), kept")
