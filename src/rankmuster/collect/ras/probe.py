"""What a RAS service can do, and so between which releases it is: four questions that start nothing in the job.

Each command of a later release is asked with an argument that cannot be right, so that a service which knows it
complains of the argument, and one that does not complains of the command (NCCL src/ras/client_support.cc,
rasClientEventLoop). `CONTROL x` names no subcommand of any release; a real one would change the job and is never sent.
The one that is taken, `TIMEOUT 0.5`, holds for the connection alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.client import Broken, Session
from rankmuster.collect.ras.release import (
    DIAGNOSTICS_SINCE,
    FRACTIONS_SINCE,
    JSON_SINCE,
    MONITOR_SINCE,
    RAS_SINCE,
    Release,
    Span,
)

_UNKNOWN = "ERROR: Unknown command"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the service that answered can do. `diagnostics`: DIAGNOSTICS (and CONTROL). `fractions`: of a second, in
    TIMEOUT. `answers`: each question and its answer as it came.

    `span`: the releases that answer so. `consistent`: False when a later ability is there without an earlier one, which
    no known release shows: then the span holds all releases from the lowest ability missing or not.
    """

    json: bool
    monitor: bool
    diagnostics: bool
    fractions: bool
    answers: tuple[tuple[str, str], ...] = ()

    @property
    def consistent(self) -> bool:
        """Whether the abilities came in the order in which NCCL got them."""
        have = (self.json, self.monitor, self.diagnostics, self.fractions)
        return list(have) == sorted(have, reverse=True)

    @property
    def span(self) -> Span:
        """Releases with exactly these abilities; every release with RAS, where they contradict one another."""
        if not self.consistent:
            return Span(RAS_SINCE, None)
        lowest: Release = RAS_SINCE
        for present, since in (
            (self.json, JSON_SINCE),
            (self.monitor, MONITOR_SINCE),
            (self.diagnostics, DIAGNOSTICS_SINCE),
            (self.fractions, FRACTIONS_SINCE),
        ):
            if not present:
                return Span(lowest, since)
            lowest = since
        return Span(lowest, None)


def probe(session: Session, deadline: Deadline) -> Abilities:
    """Asks the four questions on an open connection; afterwards its format is JSON where that exists.

    Raises Broken when one is not answered, or not as RAS does.
    """
    answers: list[tuple[str, str]] = []

    def knows(command: str, wanted: tuple[str, ...], unknown: tuple[str, ...]) -> bool:
        answer = session.ask(command, deadline)
        answers.append((command, answer[:120]))
        if answer.startswith(wanted):
            return True
        if answer.startswith(unknown):
            return False
        raise Broken(f"{command!r} was answered with {answer[:60]!r}, which no NCCL says")

    json = knows("SET FORMAT json", ("OK",), (_UNKNOWN, "ERROR: Invalid format"))
    monitor = knows("MONITOR bogus", ("ERROR: Invalid event group",), (_UNKNOWN,))
    diagnostics = knows("CONTROL x", ("ERROR: Unknown CONTROL subcommand",), (_UNKNOWN,))
    fractions = knows("TIMEOUT 0.5", ("OK",), ("ERROR: Invalid timeout", _UNKNOWN))
    return Abilities(json, monitor, diagnostics, fractions, tuple(answers))
