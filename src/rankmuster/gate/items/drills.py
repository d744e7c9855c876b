"""The drill of the whole chain passed, and so did the one in which the recorder dumps by itself at a time-out.

Both on nodes of the classes in use, with the release's settings.
"""

from __future__ import annotations

from rankmuster.baseline.fingerprint.setting_names import changes_choices
from rankmuster.gate.facts import Drill, Facts
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.artefact import DAY_AHEAD
from rankmuster.gate.items.fingerprints import classes_in_use
from rankmuster.model.drill_card import BUILT_IN, DrillRun
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import day, named, short

RECORDER_FAULT = "recorder_timeout"
"""The fault in which nothing asks for a dump: torch's watchdog times out, and the recorder writes by itself."""
FLIGHT, SPOKE = "flight", "spoke"

DO_DRILL = (
    "in pre-production, on a node of each class, with the release's settings: rankmuster drill run all --target ..."
)
DO_RECORDER = (
    f"in pre-production, on GPUs of each class: rankmuster drill run {RECORDER_FAULT} --target {BUILT_IN} "
    "--backend nccl"
)
_DAY = 86_400.0


def drill(facts: Facts) -> ItemResult:
    """The score card of the whole catalogue, with its controls."""
    answer = Answer(Item.DRILL)
    if isinstance(facts.drills, Unknown):
        return answer.lacks(facts.drills, DO_DRILL)
    answer.proofs += [one.proof for one in facts.drills]
    fitting = _fitting(facts, facts.drills, answer, DO_DRILL)
    for name, nodes in classes_in_use(facts).items():
        cards = [one for one in fitting if one.card.fingerprint.get("class_hash") == name]
        if not cards:
            answer.fail(f"no drill of class {short(name)} ({named(nodes)}) is among the cards", DO_DRILL)
            continue
        newest = max(cards, key=lambda one: one.card.made_at)
        passed, said = newest.card.passed, named(newest.card.reasons)
        if passed is None:
            answer.unknown(f"{newest.proof.name} does not decide: {said}", DO_DRILL)
        elif not passed:
            answer.fail(f"{newest.proof.name} did not pass: {said}", f"look at it: rankmuster drill report; {DO_DRILL}")
        else:
            answer.say(f"class {short(name)}: {newest.proof.name} of {day(newest.card.made_at)}, all bars hold")
    if not classes_in_use(facts):
        answer.unknown("no class of nodes in use is known, so no card can be of it", "see fingerprints")
    return answer.result(f"the chain was proven on {len(classes_in_use(facts))} class(es) of nodes")


def recorder_drill(facts: Facts) -> ItemResult:
    """A time-out in pre-production left dumps that named the rank, on these nodes."""
    answer = Answer(Item.RECORDER_DRILL)
    if isinstance(facts.drills, Unknown):
        return answer.lacks(facts.drills, DO_RECORDER)
    answer.proofs += [one.proof for one in facts.drills]
    fitting = _fitting(facts, facts.drills, answer, DO_RECORDER)
    for name, nodes in classes_in_use(facts).items():
        runs = [
            (one.card.made_at, one.proof.name, run)
            for one in fitting
            if one.card.fingerprint.get("class_hash") == name
            for run in one.card.runs
            if run.name == RECORDER_FAULT and run.kind == "fault"
        ]
        if not runs:
            answer.fail(f"class {short(name)} ({named(nodes)}) has seen no time-out drill of the recorder", DO_RECORDER)
            continue
        at, where, run = max(runs, key=lambda one: one[0])
        if said := _short_of(run):
            answer.fail(f"{where}: the time-out drill did not pass: {said}", DO_RECORDER)
        else:
            answer.say(f"class {short(name)}: passed on {day(at)} ({where})")
    if not classes_in_use(facts):
        answer.unknown("no class of nodes in use is known, so no card can be of it", "see fingerprints")
    return answer.result("a time-out left dumps that named the rank, on every class of nodes")


def _short_of(run: DrillRun) -> str:
    """What a time-out drill lacks; empty for one that passed."""
    if run.backend == "gloo":
        return "it ran over gloo, whose watchdog writes no dumps"
    if not run.right:
        return named(run.wrongs) if run.wrongs else "the fault was not made"
    if run.planes.get(FLIGHT) != SPOKE:
        return f"the recorder was {run.planes.get(FLIGHT, 'not there')}, and something else named the rank"
    return "" if run.culprit_right else "nobody was named"


def _fitting(facts: Facts, drills: tuple[Drill, ...], answer: Answer, todo: str) -> list[Drill]:
    """Cards that are young enough and of this release's settings; what others lack is said."""
    found = []
    for one in drills:
        card = one.card
        if card.made_at > facts.now + DAY_AHEAD:
            answer.say(f"{one.proof.name} is of {day(card.made_at)}, which is yet to come: not taken")
        elif facts.now - card.made_at > facts.most_age_days * _DAY:
            answer.say(
                f"{one.proof.name} is of {day(card.made_at)}, older than {facts.most_age_days:.0f} days: not taken"
            )
        elif differs := _other_settings(facts, one):
            answer.say(f"{one.proof.name} was drilled with other settings ({named(differs)}): not taken")
        else:
            found.append(one)
    if drills and not found:
        answer.fail("no score card fits: see the details", todo)
    return found


RECORDER = (
    "TORCH_NCCL_DUMP_ON_TIMEOUT",
    "TORCH_NCCL_ENABLE_MONITORING",
    "TORCH_NCCL_BLOCKING_WAIT",
    "TORCH_NCCL_ASYNC_ERROR_HANDLING",
    "TORCH_NCCL_RETHROW_CUDA_ERRORS",
)
"""Variables that decide whether a time-out leaves dumps at all."""
PLACES = ("NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "NCCL_TOPO_FILE", "NCCL_HOSTID")
"""They name devices and files of one node: a drill of the same class runs on another."""


def _other_settings(facts: Facts, drill: Drill) -> list[str]:
    """Settings that change how ranks talk, or what a time-out leaves, and that only one side has so."""
    had = {name: value for name, value in drill.card.settings.items() if _counts(name)}
    found = set()
    for part in facts.workload.deployed:
        wanted = {name: value for name, value in part.given.communication.items() if _counts(name)}
        for name in {*had, *wanted}:
            if had.get(name) != wanted.get(name) and not (name in RECORDER and name not in wanted):
                found.add(f"{name} {_said(had.get(name))}, not {_said(wanted.get(name))}")
    return sorted(found)


def _counts(name: str) -> bool:
    return name in RECORDER or (changes_choices(name) and name not in PLACES)


def _said(value: str | None) -> str:
    return "not set" if value is None else value
