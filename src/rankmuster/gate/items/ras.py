"""RAS is reachable from the controlled path only, and its answers belong to an instance, a rank and a deployment."""

from __future__ import annotations

from rankmuster.gate.facts import Facts
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.artefact import RECORD
from rankmuster.model.release import Item, ItemResult, Proof
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named

CODES = frozenset({"ras_off", "ras_open", "ras_shared_on_host", "same_ras_port"})
"""Of `env check`: RAS does not answer, answers strangers, or answers for another instance."""

OPEN = "ras_open"
"""That others reach it nobody can take on: a stranger bears the risk, too."""

NAME = "give the instance its name and deployment where it is started (RANKMUSTER_INSTANCE, rankmuster run, a label)"


def ras(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.RAS)
    answer.proofs.append(Proof(facts.workload.source, facts.workload.sha256))
    for one in facts.environment.all:
        if one.code in CODES:
            answer.fail(f"{one.where}: {one.statement}" if one.where else one.statement, one.fix)
        if one.code == OPEN:
            answer.firm = "a port that others reach can be made to crash the job"
    for part in facts.workload.deployed:
        for name in ("NCCL_RAS_ADDR", "NCCL_RAS_ENABLE"):
            if name in part.given.unknown:
                answer.unknown(f"{part.where}: {name} is set to what is not known here", f"set {name} to a plain value")
    recording = facts.recording
    if isinstance(recording, Unknown):
        answer.unknown(recording.reason, RECORD)
        return answer.result("")
    answer.proofs.append(recording.proof)
    if not recording.replies:
        answer.fail(
            "no RAS reply is in the recording: nobody has seen it answer",
            f"{RECORD}; where RAS may not be asked in health, with --ras-risk always in pre-production",
        )
    elif silent := [rank.rank for rank in recording.ranks if not rank.ras]:
        answer.fail(
            f"RAS names no process of rank {named(silent)}: its answers cannot be attributed",
            "collect on every node of the instance, with the pid of each rank (rankmuster collect finds them)",
        )
    if recording.foreign:
        answer.fail(
            f"RAS also answers for {recording.foreign} process(es) of another instance",
            "give each instance a port of its own: rankmuster env print sets NCCL_RAS_ADDR by the instance's name",
        )
    if recording.instance is None:
        answer.fail("the recording has no instance's name", NAME)
    elif recording.instance not in (facts.instance, facts.release):
        answer.fail(f"its answers are of {recording.instance!r}, not of {facts.instance!r}", NAME)
    if recording.deployment is None and recording.incarnation is None:
        answer.fail("neither a deployment nor an incarnation is in the recording: which start was it?", NAME)
    return answer.result(f"answers on its own path alone, for all {len(recording.ranks)} ranks of {recording.instance}")
