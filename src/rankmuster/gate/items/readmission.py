"""A node that was suspected, repaired or is new gets in by a benchmark, and by nothing else."""

from __future__ import annotations

from rankmuster.gate.facts import Facts
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.runbook import CONFIGURE, must_act
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named

ADMIT = "rankmuster admit on it"
ROLES = {"node": "suspect nodes are kept out", "retest": "they are tested again before they come back"}


def readmission(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.READMISSION)
    book = facts.runbook
    if isinstance(book, Unknown):
        return answer.lacks(book, CONFIGURE)
    answer.proofs.append(book.proof)
    must_act(answer, book, ROLES, "there is")
    if not book.pairs:
        answer.say("suspects are tested alone: a path between two nodes is not (`pairs`, `good`)")
    if isinstance(facts.past, Unknown):
        answer.unknown(facts.past.reason, "name the history with `history`")
    elif not isinstance(facts.nodes, Unknown):
        decisions = facts.past.admitted
        never = [one.name for one in facts.nodes if one.name not in decisions]
        refused = [f"{one.name} ({decisions[one.name]})" for one in facts.nodes if decisions.get(one.name) in _REFUSED]
        if never:
            answer.fail(f"never admitted by a benchmark: {named(never)}", ADMIT)
        weak = [one.name for one in facts.nodes if decisions.get(one.name) == PROVISIONAL]
        if weak:
            answer.unknown(f"admitted provisionally, with too little to compare with: {named(weak)}", ADMIT)
        if refused:
            answer.fail(f"in use, and last not admitted: {named(refused)}", f"take it out, or repair it and {ADMIT}")
    return answer.result("by a benchmark against the history of its kind, and every node in use has passed one")


_REFUSED = ("fail", "error")
PROVISIONAL = "provisional"
