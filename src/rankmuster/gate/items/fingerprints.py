"""Every node model in use has a fingerprint in the history, so that a node of it can be compared with its kind."""

from __future__ import annotations

from collections.abc import Mapping

from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.gate.facts import Facts, NodeInUse, Recording
from rankmuster.gate.items.answer import Answer
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import named, short

TAKE = (
    "on each node, in the release's container: rankmuster fingerprint --output FILE; name the files in `fingerprints`"
)
STORE = "rankmuster admit on a node of each kind: it stores the fingerprint with what was measured"


def fingerprints(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.FINGERPRINTS)
    if isinstance(facts.nodes, Unknown):
        return answer.lacks(facts.nodes, TAKE)
    answer.proofs += [one.proof for one in facts.nodes]
    for one in facts.nodes:
        for what in ("topology_hash", "class_hash"):
            value = getattr(one.fingerprint, what)
            if isinstance(value, Unknown):
                answer.fail(f"{one.name}: its {what} is unknown ({value.reason})", TAKE)
        _settings(answer, facts, one)
    if not isinstance(facts.recording, Unknown):
        _hosts(answer, facts.recording, facts.nodes)
    if isinstance(facts.past, Unknown):
        answer.unknown(facts.past.reason, STORE)
        return answer.result("")
    for name, nodes in classes_in_use(facts).items():
        past = facts.past.classes.get(name)
        if past is None or not past.fingerprints:
            answer.fail(
                f"no fingerprint of class {short(name)} ({named(nodes)}) is stored in {facts.past.place}", STORE
            )
        else:
            answer.say(f"class {short(name)}: {past.fingerprints} fingerprint(s) stored")
    return answer.result(f"{len(facts.nodes)} node(s) of {len(classes_in_use(facts))} class(es), all stored")


def _settings(answer: Answer, facts: Facts, node: NodeInUse) -> None:
    """The class of a node is of its NCCL settings too: with others it is another class, of which nothing is known."""
    taken = {name: value for name, value in node.fingerprint.settings.items() if changes_choices(name)}
    for one in facts.workload.deployed:
        now = {name: value for name, value in one.given.communication.items() if changes_choices(name)}
        for name in sorted({*taken, *now}):
            was, wanted = taken.get(name), now.get(name)
            if was != wanted and "$(" not in (wanted or ""):
                words = f"the fingerprint of {node.name} was taken with {name} {_said(was)}, and {one.where} has it "
                answer.fail(f"{words}{_said(wanted)}", TAKE)


def _said(value: object) -> str:
    return "not set" if value is None else f"= {value}"


def _hosts(answer: Answer, recording: Recording, nodes: tuple[NodeInUse, ...]) -> None:
    """Every host of the recording is one of the nodes, by its name or by the UUIDs of its GPUs."""
    known = {name for one in nodes for name in (one.name, one.name.split(".")[0])}
    gpus = {uuid for one in nodes for uuid in _uuids(one)}
    by_gpu = {rank.host for rank in recording.ranks if rank.gpu is not None and rank.gpu in gpus}
    hosts = sorted({rank.host for rank in recording.ranks if rank.host is not None})
    missing = [host for host in hosts if host not in known and host.split(".")[0] not in known and host not in by_gpu]
    if missing:
        answer.fail(f"of {named(missing)}, where the recording was made, there is no fingerprint", TAKE)
    elif not hosts:
        answer.unknown("the recording names no host", TAKE)


def _uuids(node: NodeInUse) -> list[str]:
    gpus = node.fingerprint.made_from.get("gpus")
    found = [one.get("uuid") for one in gpus if isinstance(one, Mapping)] if isinstance(gpus, (list, tuple)) else []
    return [one for one in found if isinstance(one, str)]


def classes_in_use(facts: Facts) -> dict[str, list[str]]:
    """Class hash -> its nodes in use, where they are known."""
    found: dict[str, list[str]] = {}
    for one in () if isinstance(facts.nodes, Unknown) else facts.nodes:
        if isinstance(one.fingerprint.class_hash, str):
            found.setdefault(one.fingerprint.class_hash, []).append(one.name)
    return found
