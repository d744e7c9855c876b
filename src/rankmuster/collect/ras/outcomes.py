"""How a query ended, in words for the manifest. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from rankmuster.collect.outcome import Ending, Outcome
from rankmuster.collect.ras.attempts import Attempt, Met, summary
from rankmuster.collect.ras.identity import release_text
from rankmuster.collect.ras.policy import Action, Decision
from rankmuster.collect.ras.poll import Poll, Result, told


def declined(decision: Decision) -> Outcome:
    """Not asked, and why."""
    return Outcome(Ending.NOTHING if decision.action is Action.NO_RAS else Ending.DECLINED, decision.reason)


def nobody(where: str, attempts: Sequence[Attempt]) -> Outcome:
    """No connection was answered as RAS answers."""
    note = summary(tuple(attempts))
    met = {one.met for one in attempts}
    if Met.REFUSED not in met or not met <= {Met.REFUSED, Met.UNREACHABLE}:  # ::1 where there is no IPv6
        return Outcome(Ending.FAILED, f"RAS did not answer at {where}: {note}")
    why = (
        "no process there has opened RAS: none has initialised NCCL yet, all have ended, or another user's job "
        "has the port (NCCL_RAS_ADDR gives each instance its own)"
    )
    return Outcome(Ending.NOTHING, f"nobody listens at {where} ({note}): {why}")


def asked(where: str, polls: Sequence[Poll], wanted: int, decision: Decision) -> Outcome:
    """What the polls brought; `polls`: without those that another job answered."""
    reports = [poll for poll in polls if poll.result is Result.REPORT]
    failed = [poll for poll in polls if poll.result is not Result.REPORT]
    if not reports:
        if not failed:
            return Outcome(Ending.FAILED, f"no reply of this instance's own processes came from {where}")
        return Outcome(Ending.FAILED, f"{where} gave no report: {told(failed[-1])}")
    last = reports[-1]
    release = (release_text(last.reply.data) if last.reply is not None else None) or "of an unknown release"
    note = f"{len(reports)} of {wanted} polls brought a report ({last.form.value}, NCCL {release})"
    cut = [poll.reply.ended.value for poll in reports if not poll.whole and poll.reply is not None]
    if cut:
        note += f"; {len(cut)} of them cut ({cut[-1]}), kept as far as they came"
    if failed:
        note += f"; another: {told(failed[-1])}"
    elif len(reports) < wanted:
        note += "; no time was left for more"
    if decision.risky:
        note += f"; {decision.reason}"
    return Outcome(Ending.DONE if len(reports) - len(cut) == wanted else Ending.PARTIAL, note)


def silence(attempts: Sequence[Attempt]) -> tuple[str, ...]:
    """A warning where connections were accepted and not answered: that is evidence of its own."""
    silent = [one for one in attempts if one.met is Met.SILENT]
    if not silent:
        return ()
    places = ", ".join(sorted({one.address for one in silent}))
    return (
        f"{len(silent)} of {len(attempts)} connections were accepted and never answered ({places}): a process on this "
        "node has no running RAS thread (stopped, or frozen)",
    )
