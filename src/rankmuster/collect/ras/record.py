"""What was tried, on whom, what came back and what was decided: `ras/probe.json`, for people and for later tools.

It speaks of the asking, not of the job: no reader of `diagnose` takes it for a reply. So do replies of another job,
which are kept in it as text: as files of their own they would be read as this instance's.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any

from rankmuster.collect.ras.attempts import Attempt
from rankmuster.collect.ras.policy import Decision
from rankmuster.collect.ras.poll import Poll, Result
from rankmuster.collect.ras.probe import Abilities
from rankmuster.collect.ras.version import NcclVersion

SCHEMA = "rankmuster.ras-query/1"

MAX_FOREIGN_REPLY = 64 << 10
"""Bytes kept of another job's reply: enough to see whose it is."""

MAX_ODD_REPLY = 2 << 10
"""Bytes kept of what came instead of a report: enough to see what it is."""


@dataclass(slots=True)
class Record:
    """Filled as the query goes on. Times in unix seconds."""

    address: str = ""
    network: str = ""
    decisions: list[dict[str, Any]] = field(default_factory=list)
    polls: list[dict[str, Any]] = field(default_factory=list)
    foreign: list[dict[str, Any]] = field(default_factory=list)
    nccl: dict[str, Any] = field(default_factory=dict)
    probe: dict[str, Any] | None = None
    events: dict[str, Any] | None = None
    diagnostics: dict[str, Any] | None = None
    outcome: str = ""

    def version(self, version: NcclVersion) -> None:
        """Which NCCL was found without asking."""
        self.nccl = {
            "releases": [str(release) for release in version.releases],
            "found_in": [
                {"kind": source.kind.value, "where": source.where, "release": str(source.release)}
                for source in version.sources
            ],
            "mapped": version.mapped,
            "hint": version.hint,
            "notes": list(version.notes),
        }

    def probed(self, abilities: Abilities) -> None:
        """What the service can do."""
        self.probe = {"releases": str(abilities.span), "answers": [list(pair) for pair in abilities.answers]}

    def decided(self, at: float, decision: Decision) -> None:
        """One decision; the same one twice in a row is kept once."""
        entry = {
            "at": round(at, 3),
            "action": decision.action.value,
            "reason": decision.reason,
            "form": decision.form.value,
            "hazards": [f"{hazard.harm.value}: {hazard.source}" for hazard in decision.hazards],
        }
        if not self.decisions or self.decisions[-1]["reason"] != decision.reason:
            self.decisions.append(entry)

    def polled(self, poll: Poll, files: tuple[str, ...]) -> None:
        """One poll, with the files it left."""
        entry: dict[str, Any] = {
            "at": round(poll.at, 3),
            "result": poll.result.value,
            "form": poll.form.value,
            "timeout_seconds": poll.timeout,
            "error": poll.error or None,
            "kept_in": list(files),
        }
        if poll.reply is not None:
            entry |= {
                "ended": poll.reply.ended.value,
                "seconds": round(poll.reply.seconds, 4),
                "bytes": len(poll.reply.data),
            }
            if poll.result is Result.REFUSED:
                entry["reply"] = poll.reply.data[:MAX_ODD_REPLY].decode("ascii", errors="backslashreplace")
        self.polls.append(entry)

    def another(self, poll: Poll) -> None:
        """A reply that names none of the instance's processes."""
        if poll.reply is None:
            return
        data = poll.reply.data[:MAX_FOREIGN_REPLY]
        self.foreign.append({"at": round(poll.at, 3), "reply": data.decode("ascii", errors="backslashreplace")})

    def as_json(self, attempts: tuple[Attempt, ...]) -> bytes:
        """The file."""
        document = {
            "schema": SCHEMA,
            "asked_at": self.address,
            "network": self.network,
            "nccl": self.nccl,
            "probe": self.probe,
            "decisions": self.decisions,
            "attempts": [asdict(one) | {"met": one.met.value, "at": round(one.at, 3)} for one in attempts],
            "polls": self.polls,
            "events": self.events,
            "diagnostics": self.diagnostics,
            "replies_of_another_job": self.foreign,
            "outcome": self.outcome,
        }
        return json.dumps(document, indent=1).encode() + b"\n"
