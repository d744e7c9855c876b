"""Topology and P2P are as expected: nodes of one kind agree, are what the release is meant for, and peers reach."""

from __future__ import annotations

from rankmuster.admission.made_from import NotMadeOfAPath, path_of
from rankmuster.admission.peer_to_peer import peer_checks
from rankmuster.gate.facts import Facts, NodeInUse
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.fingerprints import TAKE
from rankmuster.model.admission import CheckState
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named, short

COMPARE = "rankmuster fingerprint diff A B says what differs; repair it, or expect both in `expect`"
_BAD = (CheckState.FAIL, CheckState.HUNG, CheckState.ERROR)


def topology(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.TOPOLOGY)
    if isinstance(facts.nodes, Unknown):
        return answer.lacks(facts.nodes, TAKE)
    answer.proofs += [one.proof for one in facts.nodes]
    kinds: dict[tuple[str, str], dict[str, list[str]]] = {}
    for one in facts.nodes:
        found = one.fingerprint.topology_hash
        if isinstance(found, Unknown):
            answer.unknown(f"{one.name}: its topology is not wholly known ({found.reason})", TAKE)
            continue
        kind = (str(one.fingerprint.gpu_model), str(one.fingerprint.gpu_count))
        kinds.setdefault(kind, {}).setdefault(found, []).append(one.name)
        if facts.expected and not any(_is(found, wanted) for wanted in facts.expected):
            words = (
                f"{one.name} has topology {short(found)}, and expected is {named([short(w) for w in facts.expected])}"
            )
            answer.fail(words, COMPARE)
        _peers(answer, one)
    for (model, count), topologies in kinds.items():
        if len(topologies) > 1 and not facts.expected:
            words = "; ".join(f"{short(one)}: {named(nodes)}" for one, nodes in topologies.items())
            answer.fail(f"nodes with {count} x {model} differ in topology: {words}", COMPARE)
    return answer.result(f"{len(facts.nodes)} node(s) as expected, and their GPUs reach each other")


def _is(found: str, wanted: str) -> bool:
    digits = wanted.removeprefix("sha256:")
    return len(digits) >= 8 and found.removeprefix("sha256:").startswith(digits)


def _peers(answer: Answer, node: NodeInUse) -> None:
    try:
        checks = peer_checks(path_of(node.fingerprint))
    except NotMadeOfAPath as error:
        answer.unknown(f"{node.name}: its P2P matrix cannot be read ({error})", TAKE)
        return
    for check in checks:
        words = f"{node.name}, {check.subject}: {check.statement}"
        if check.state in _BAD:
            answer.fail(words, check.advice or COMPARE)
        elif check.state is CheckState.UNKNOWN and check.required:
            answer.unknown(words, check.advice or TAKE)
        elif check.state is CheckState.WARN:
            answer.say(words)
