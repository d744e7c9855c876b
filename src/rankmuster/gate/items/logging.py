"""Normal and incident logging are kept apart, on disk, per host and pid; and nothing that is set loses evidence."""

from __future__ import annotations

from rankmuster.environment.contradiction import Severity
from rankmuster.gate.facts import Facts
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.ras import CODES as RAS_CODES
from rankmuster.gate.items.runbook import CONFIGURE
from rankmuster.model.release import Item, ItemResult, Proof
from rankmuster.model.unknown import Unknown

CODES = frozenset(
    {
        "trace_left_on",
        "log_per_call",
        "log_without_file",
        "shared_log_file",
        "log_file_without_host",
        "log_file_without_level",
        "subsystems_without_level",
        "no_stamps",
        "info_without_stamps",
        "default_prefix",
        "shared_prefix",
        "same_prefix",
        "folder_unusable",
        "not_on_a_volume",
        "shared_on_host",
        "left_from_debugging",
        "relative_path",
    }
)
"""Of `env check`: a log that nobody will find, that others write over, or that is an incident's and left on. Its notes
on these are told; every warning and error of it fails, since each of them loses or blurs evidence."""

SWITCHED_ON = ("NCCL_DEBUG", "NCCL_DEBUG_FILE")
"""What a log on disk per host and pid needs at least."""

LEVELS = ("INFO", "WARN", "ABORT", "TRACE")
"""That say something of a fault; NCCL takes any other word for silence (src/debug.cc). TRACE has its own finding."""

PRINT = "rankmuster env print --profile steady prints all of it: copy that into the release"


def logging(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.LOGGING)
    answer.proofs.append(Proof(facts.workload.source, facts.workload.sha256))
    for one in facts.environment.all:
        if one.code not in RAS_CODES and (one.code in CODES or one.severity is not Severity.NOTE):
            words = f"{one.where}: {one.statement}" if one.where else one.statement
            if one.severity is Severity.NOTE:
                answer.say(words)
            else:
                answer.fail(words, one.fix)
    for part in facts.workload.deployed:
        missing = [name for name in SWITCHED_ON if not part.given.has(name)]
        if missing:
            answer.fail(f"{part.where}: {' and '.join(missing)} not set: NCCL writes nothing to a disk", PRINT)
        level = part.given.of("NCCL_DEBUG")
        if level is not None and level.upper() not in LEVELS:
            answer.fail(
                f"{part.where}: NCCL_DEBUG={level} logs nothing of a fault", f"set {' or '.join(LEVELS)}; {PRINT}"
            )
        path = part.given.of("NCCL_DEBUG_FILE") or ""
        if path and not ("%h" in path and "%p" in path):
            words = (
                f"{part.where}: NCCL_DEBUG_FILE={path} names no host (%h) or no pid (%p): ranks write over each other"
            )
            answer.fail(words, f"set NCCL_DEBUG_FILE to a path with %h and %p in it; {PRINT}")
    if isinstance(facts.runbook, Unknown):
        answer.unknown(f"what an incident logs is not known: {facts.runbook.reason}", CONFIGURE)
        return answer.result("")
    answer.proofs.append(facts.runbook.proof)
    if facts.runbook.incident_profile:
        answer.say("a rebuilt group is started once with the logs of an incident, in a folder of its incarnation")
    else:
        answer.say("a rebuilt group is started with its ordinary logs (`incident_profile` is off)")
    return answer.result("on disk per host and pid, and an incident's logs are another incarnation's")
