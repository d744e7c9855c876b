"""The runbook's order and deadlines are configured, and what brings the instance back may act."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.gate.facts import Facts, Runbook
from rankmuster.gate.items.answer import Answer
from rankmuster.model.incident import Step
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown

CONFIGURE = (
    "write the settings of rankmuster incident (or a CommunicationPolicy) for the instance, and name them in `runbook`"
)

LONGEST_STOP = 900.0
"""Seconds that traffic may be away by the deadlines of all steps: more than a quarter of an hour, and people rebuild by
hand meanwhile. The default deadlines add up to 770 s, 600 of which are the engine's own start."""
LEAST_EVIDENCE = 5.0
"""Seconds: a bundle of one healthy host takes two to four (docs/measured.md); with less nothing is saved."""
ROLES = {
    "traffic": "new requests are kept away",
    "group": "the whole process group is ended and started",
}
"""What has to be there, and enabled."""


def runbook(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.RUNBOOK)
    book = facts.runbook
    if isinstance(book, Unknown):
        return answer.lacks(book, CONFIGURE)
    answer.proofs.append(book.proof)
    must_act(answer, book, ROLES, f"{book.instance} has")
    if not book.probe:
        answer.fail(
            "a rebuilt instance is not asked whether it serves before it gets traffic",
            "configure `probe`: a request for a token, with a word of its answer",
        )
    for objection in book.objections:
        answer.fail(objection, "correct the settings: rankmuster incident run --dry-run shows what would be done")
    budget = book.budget
    if budget.of(Step.EVIDENCE) < LEAST_EVIDENCE:
        words = f"evidence has {budget.of(Step.EVIDENCE):g} s, and saves nothing in less than {LEAST_EVIDENCE:g}"
        answer.fail(words, f"give budget.evidence {LEAST_EVIDENCE:g} s or more")
    if budget.total < budget.longest_way:
        words = f"the total deadline is {budget.total:g} s, and its steps may take {budget.longest_way:g} s"
        answer.fail(words, "raise total_seconds, or lower the steps' own deadlines")
    if budget.total > LONGEST_STOP:
        words = f"traffic may be away for {budget.total:g} s before anybody is called"
        answer.fail(words, f"lower the deadlines to {LONGEST_STOP:g} s in all")
    answer.say(f"evidence {budget.of(Step.EVIDENCE):g} s, then the group is ended; {budget.total:g} s in all")
    return answer.result(f"stop traffic, save, rebuild, verify, give back: {budget.total:g} s at most, and it acts")


def must_act(answer: Answer, book: Runbook, roles: Mapping[str, str], there: str) -> None:
    """Fails for every role of `roles` (with what it does) that nothing fills, or that is not enabled. `there`: the
    words before "nothing"."""
    for role, what in roles.items():
        if role not in book.has:
            answer.fail(f"{there} nothing by which {what} ({role})", f"configure `{role}` of the instance")
        elif role not in book.acts:
            answer.fail(f"{role} only observes: nobody sees to it that {what}", f"enable it: enable: [{role}, ...]")
