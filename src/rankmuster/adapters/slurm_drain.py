"""A node is kept from new jobs by Slurm's drain, with a reason that says which incident, and is let in again by us only
while that reason stands there as we wrote it.

Slurm cannot be told "drain it unless somebody else has": between our look and our call there are milliseconds in which
an admin's drain is overwritten. The look afterwards cannot tell that. UNDRAIN takes the drain alone away: a node that
is DOWN stays down (RESUME would bring it back).
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping

from rankmuster.adapters.own_words import OURS, fit_reason, incident_objection, mark, node_objection
from rankmuster.adapters.scontrol import Said, Scontrol
from rankmuster.adapters.slurm_node import COMES_BACK, SlurmNode, read_node
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending, Fenced, NodeLook

LOOK_SHARE = 0.3
"""Of what is left of the deadline, kept for the look at what was done."""


class SlurmDrain:
    """A `Node` of `incident.actuators`. `environ`: of scontrol, None for this program's own."""

    def __init__(
        self, *, name: str = "slurm_drain", scontrol: str = "scontrol", environ: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self._scontrol = Scontrol(scontrol, environ)

    def look(self, node: str, deadline: Deadline) -> NodeLook:
        """Whether it is drained, and by whom."""
        seen = self._see(node, deadline)
        if isinstance(seen, Said):
            return NodeLook(fenced=Fenced.UNKNOWN, note=seen.problem)
        return NodeLook(fenced=seen.fenced, incident=seen.incident, reason=seen.reason, note=f"{node} is {seen.words}")

    def fence(self, node: str, incident: str, reason: str, deadline: Deadline) -> Answer:
        """Drains it, unless it is drained, or down by somebody's word, already."""
        objection = node_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was asked of Slurm: {objection}")
        seen = self._see(node, deadline.before(deadline.remaining() / 2))
        if isinstance(seen, Said):
            return _unseen(seen)
        if seen.fenced is not Fenced.NO:
            return _standing(seen, incident)
        asked = self._scontrol.ask(
            _drain(node, _reason(incident, reason, seen)), deadline.before(deadline.remaining() * LOOK_SHARE)
        )
        after = self._see(node, deadline)
        if not isinstance(after, Said) and after.drained:
            return _standing(after, incident, "it was drained")
        return _not_so(asked, after, f"node {node} is not drained")

    def lift(self, node: str, incident: str, deadline: Deadline) -> Answer:
        """Takes our own drain of this incident away, and nothing else."""
        objection = node_objection(node) or incident_objection(incident)
        if objection:
            return Answer(ending=Ending.REFUSED, note=f"nothing was asked of Slurm: {objection}")
        seen = self._see(node, deadline.before(deadline.remaining() / 2))
        if isinstance(seen, Said):
            return _unseen(seen)
        if not seen.drained:
            return Answer(
                ending=Ending.DONE, note=f"node {node} is not drained ({seen.words}); there is nothing to lift"
            )
        if seen.incident != incident:
            whose = f"incident {seen.incident}" if seen.incident is not None else "somebody else"
            return Answer(
                ending=Ending.REFUSED,
                note=f"the drain of node {node} is of {whose} ({seen.words}) and stays: scontrol update "
                f"NodeName={node} State=UNDRAIN lifts it by hand",
                data={"others": True},
            )
        asked = self._scontrol.ask(_undrain(node), deadline.before(deadline.remaining() * LOOK_SHARE))
        after = self._see(node, deadline)
        if isinstance(after, Said) or after.drained:
            return _not_so(asked, after, f"the drain of node {node} is not lifted")
        note = f"the drain of node {node} is lifted; it is {'+'.join(sorted(after.states))}"
        if after.down and seen.was:
            self._scontrol.ask(["update", f"NodeName={node}", f"Reason={seen.was}"], deadline)
            note += f", as slurmctld had it before ({seen.was})"
        return Answer(ending=Ending.DONE, note=note)

    def would(self, verb: str, node: str, incident: str, reason: str = "") -> tuple[str, ...]:
        """The command line."""
        arguments = _undrain(node) if verb == "lift" else _drain(node, mark(_words(incident, reason)))
        line = shlex.join([self._scontrol.program, *arguments])
        if verb == "lift":
            return (f"{line}  # if its reason is as incident {incident} wrote it",)
        return (f"{line}  # unless others have drained it",)

    def _see(self, node: str, deadline: Deadline) -> SlurmNode | Said:
        objection = node_objection(node)
        if objection:
            return Said("", objection)
        said = self._scontrol.ask(["show", "node", node], deadline)
        if said.problem:
            return said
        found = read_node(said.text, node)
        return Said(said.text, found) if isinstance(found, str) else found


def _words(incident: str, reason: str) -> str:
    return f"{OURS}:{incident}:{fit_reason(reason)}"


def _reason(incident: str, reason: str, seen: SlurmNode) -> str:
    words = _words(incident, reason)
    known = [one for one in COMES_BACK if seen.reason.startswith(one)]
    return mark(f"{words} (was: {fit_reason(seen.reason, 60)})" if known else words)


def _drain(node: str, reason: str) -> list[str]:
    return ["update", f"NodeName={node}", "State=DRAIN", f"Reason={reason}"]


def _undrain(node: str) -> list[str]:
    return ["update", f"NodeName={node}", "State=UNDRAIN"]


def _standing(seen: SlurmNode, incident: str, did: str = "") -> Answer:
    """It is fenced: by this incident, by another one of ours, or by others."""
    if seen.fenced is Fenced.OURS and seen.incident == incident:
        how = did or "it was drained by this incident already"
        return Answer(ending=Ending.DONE, note=f"node {seen.name}: {how} ({seen.words})")
    whose = f"incident {seen.incident}" if seen.incident is not None else "others"
    note = f"node {seen.name} is kept from work by {whose} already ({seen.words}); that stays theirs"
    return Answer(ending=Ending.DONE, note=note, data={"others": True})


def _unseen(said: Said) -> Answer:
    return Answer(
        ending=Ending.TIMED_OUT if said.late else Ending.FAILED,
        note=f"nothing was changed, since the node could not be looked at: {said.problem}",
    )


def _not_so(asked: Said, after: SlurmNode | Said, what: str) -> Answer:
    """What was asked for does not hold, or nobody can see whether it does."""
    said = asked.problem or "scontrol said that it did it"
    seen = f"nobody can see how it is now ({after.problem})" if isinstance(after, Said) else f"it is {after.words}"
    late = asked.late or (isinstance(after, Said) and after.late)
    if isinstance(after, Said):
        what = f"whether {what.replace(' is not ', ' is ')} is not known"
    return Answer(ending=Ending.TIMED_OUT if late else Ending.FAILED, note=f"{what}: {said}; {seen}")
