"""One poll: a connection whose service is known to be what was decided upon, and its whole report."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.ras.attempts import Attempt, Met, NoAnswer, summary
from rankmuster.collect.ras.client import MAX_REPLY, Broken, Ended, Reply, Service
from rankmuster.collect.ras.identity import Whose, is_report, whose
from rankmuster.collect.ras.policy import Form
from rankmuster.collect.ras.probe import Abilities, probe

SOFT_SECONDS = 5
"""RAS_COLLECTIVE_LEG_TIMEOUT_SEC (src/ras/ras_internal.h): what `TIMEOUT n` changes."""

HARD_SECONDS = 5
"""RAS_COLLECTIVE_EXTRA_TIMEOUT_SEC (src/ras/ras_internal.h): comes on top, times NCCL_RAS_TIMEOUT_FACTOR."""

SLACK_SECONDS = 0.5
"""For the handshake, the probe and sending the report."""

LEAST_SECONDS = 1.5
"""With less time left no poll is begun: it would be cut, and leave the RAS thread with a collection nobody reads."""


class Result(str, Enum):
    """REPORT: a report, whole or cut. ANOTHERS: a report of a different job. REFUSED: the service answered that it will
    not, or something that is no report. SILENT: nobody answered. UNSAFE: who answered is not what was decided upon."""

    REPORT = "report"
    ANOTHERS = "anothers"
    REFUSED = "refused"
    SILENT = "silent"
    UNSAFE = "unsafe"


@dataclass(frozen=True, slots=True)
class Poll:
    """What one poll brought. `at`: unix seconds when it was asked. `form`: of the report. `timeout`: seconds, as sent.

    `error`: where there is no report, the exception of the connection as Python would write it. `attempts`: every
    connect of this poll, the silent ones too.
    """

    result: Result
    at: float
    form: Form
    attempts: tuple[Attempt, ...] = ()
    reply: Reply | None = None
    timeout: int | None = None
    abilities: Abilities | None = None
    error: str = ""

    @property
    def silent(self) -> tuple[Attempt, ...]:
        """Connects that were accepted and never answered: a process here whose RAS thread does not run."""
        return tuple(one for one in self.attempts if one.met is Met.SILENT)

    @property
    def whole(self) -> bool:
        """Whether a report came to its end."""
        return self.result is Result.REPORT and self.reply is not None and self.reply.ended is Ended.WHOLE


def server_timeout(seconds: float, factor: float = 1.0) -> int:
    """`TIMEOUT n` such that the service gives up on slow peers before `seconds` are over: 1 to 5, never 0 (none).

    `factor`: the job's NCCL_RAS_TIMEOUT_FACTOR.
    """
    room = seconds - SLACK_SECONDS - HARD_SECONDS * max(factor, 1.0)
    return max(1, min(SOFT_SECONDS, int(room)))


def patience(remaining: float, looks: int, factor: float = 1.0) -> float:
    """Seconds that a poll may take when `looks` are still wanted in `remaining` seconds.

    An even share, so that a job whose frozen member delays every report is looked at twice; but not less than the
    service needs to give up on that member, while there is so much.
    """
    enough = 1 + HARD_SECONDS * max(factor, 1.0) + SLACK_SECONDS
    return max(remaining / max(looks, 1), min(remaining, enough))


def ask_status(
    service: Service,
    deadline: Deadline,
    *,
    pids: tuple[int, ...],
    allows: Callable[[Abilities], bool],
    factor: float = 1.0,
    max_bytes: int = MAX_REPLY,
) -> Poll:
    """Asks for one verbose report of at most `max_bytes`. Never raises, except NamespaceClosed.

    The probe is repeated on the very connection of the request: on a port that several jobs share, the one that answers
    now need not be the one that was probed. `allows`: whether a service with such abilities may be asked.
    """
    at = service.now()
    first = len(service.attempts)

    def made() -> tuple[Attempt, ...]:
        return tuple(service.attempts[first:])

    try:
        session = service.open(deadline)
    except NoAnswer as nobody:
        error = nobody.attempts[-1].error if nobody.attempts else "TimeoutError('no time was left to connect')"
        return Poll(Result.SILENT, at, Form.TEXT, made(), error=error)
    with session:
        abilities: Abilities | None = None
        try:
            abilities = probe(session, deadline)
            if not allows(abilities):
                return Poll(Result.UNSAFE, at, Form.TEXT, made(), abilities=abilities)
            form = Form.JSON if abilities.json else Form.TEXT
            timeout = server_timeout(deadline.remaining(), factor)
            session.ask(f"TIMEOUT {timeout}", deadline)
        except Broken as broken:
            return Poll(Result.REFUSED, at, Form.TEXT, made(), abilities=abilities, error=f"OSError({str(broken)!r})")
        at = service.now()
        reply = session.report("VERBOSE STATUS", deadline, max_bytes=max_bytes, clock=service.clock)
    error = ""
    if not is_report(reply.data):
        result, error = Result.REFUSED, _error(reply)
    elif whose(reply.data, pids) is Whose.ANOTHERS:
        result = Result.ANOTHERS
    else:
        result = Result.REPORT
    return Poll(result, at, form, made(), reply, timeout, abilities, error)


def _error(reply: Reply) -> str:
    """The exception that a plain client would have seen."""
    if not reply.data:
        if reply.ended is Ended.TIME:
            return "TimeoutError('timed out')"
        if reply.ended is Ended.BROKEN:
            return f"ConnectionResetError({reply.detail!r})"
        return "ConnectionResetError('the connection was closed without a report')"
    start = ascii(reply.data[:60].decode("latin-1"))
    return f"OSError({'the request was answered with ' + start + ', which is no report'!r})"


def told(poll: Poll) -> str:
    """What the poll met, in words for a person."""
    if poll.result is Result.SILENT:
        return summary(poll.attempts)
    return poll.error or poll.result.value
