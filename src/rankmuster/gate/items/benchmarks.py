"""Benchmarks cover what the release really does: its message sizes, its collectives, the nodes it puts together.

What has to be covered is computed from the recording (`bench.profile_from_bundle`, and the hosts of its groups), never
from a list that somebody typed.
"""

from __future__ import annotations

from itertools import combinations

from rankmuster.gate.facts import ClassPast, Facts, Measured, Past, Recording
from rankmuster.gate.items.answer import Answer
from rankmuster.gate.items.artefact import RECORD
from rankmuster.gate.items.fingerprints import classes_in_use
from rankmuster.model.benchmark import Operation, Step
from rankmuster.model.release import Item, ItemResult
from rankmuster.model.unknown import Unknown
from rankmuster.report.release_words import day, named, short

NEAR = 1.42
"""Factor between a message's size and one that was measured: sweeps double (nccl-tests -f 2), so that the next one is
within the square root of two."""

REDUCTIONS = (Operation.ALL_REDUCE, Operation.REDUCE_SCATTER, Operation.REDUCE)
_DAY = 86_400.0

MEASURE = (
    "rankmuster bench profile BUNDLE --output profile.yaml, then rankmuster admit --profile profile.yaml on a node of "
    "each class"
)
TOGETHER = "rankmuster admit pairs over these nodes: one healthy node proves nothing of the pair"


def benchmarks(facts: Facts) -> ItemResult:
    """See the module."""
    answer = Answer(Item.BENCHMARKS)
    recording, past = facts.recording, facts.past
    if isinstance(recording, Unknown):
        return answer.lacks(recording, RECORD)
    answer.proofs.append(recording.proof)
    if isinstance(recording.profile, Unknown):
        return answer.lacks(recording.profile, RECORD)
    if isinstance(past, Unknown):
        return answer.lacks(past, MEASURE)
    classes = classes_in_use(facts)
    if not classes:
        answer.unknown("no class of nodes in use is known", "see fingerprints")
    ranks = max((min(span.ranks, _on_one(recording, span.hosts)) for span in recording.spans), default=1)
    for name, nodes in classes.items():
        one = past.classes.get(name)
        if one is None or not one.runs:
            answer.fail(f"class {short(name)} ({named(nodes)}) has no complete run in {past.place}", MEASURE)
            continue
        if facts.now - one.newest > facts.most_age_days * _DAY:
            words = f"class {short(name)} was last measured on {day(one.newest)}, more than"
            answer.fail(f"{words} {facts.most_age_days:.0f} days ago", MEASURE)
        _covered(answer, name, one, recording.profile.steps, ranks)
    _together(answer, recording, past)
    for note in recording.notes:
        answer.say(note)
    sizes = sum(len(step.sizes) for step in recording.profile.steps)
    return answer.result(f"all {sizes} operations and sizes of its load, on {len(classes)} class(es) of nodes")


def _on_one(recording: Recording, hosts: tuple[str, ...]) -> int:
    """The most ranks that one of the hosts has."""
    counts = [sum(rank.host == host for rank in recording.ranks) for host in hosts]
    return max(counts, default=len(recording.ranks)) or 1


def _covered(answer: Answer, name: str, past: ClassPast, steps: tuple[Step, ...], ranks: int) -> None:
    missing = [
        f"{step.operation.value} of {_size(size)}"
        for step in steps
        for size in step.sizes
        if not _near(past.measured, step, size, ranks)
    ]
    if missing:
        over = f" over at least {ranks} GPUs" if ranks > 1 else ""
        answer.fail(f"class {short(name)} was never measured with {named(missing)}{over}", MEASURE)
    else:
        answer.say(f"class {short(name)}: covered by {past.runs} complete run(s)")


def _near(measured: frozenset[Measured], step: Step, size: int, ranks: int) -> bool:
    """A reduction adds numbers of a type: another type is another kernel. What only moves bytes moves any."""
    return any(
        one.operation is step.operation
        and one.ranks >= ranks
        and size / NEAR <= one.size_bytes <= size * NEAR
        and (step.operation not in REDUCTIONS or one.dtype == step.dtype)
        for one in measured
    )


def _together(answer: Answer, recording: Recording, past: Past) -> None:
    """Every two hosts that share a group have passed an admission together, and failed none since."""
    pairs = sorted({pair for span in recording.spans for pair in combinations(span.hosts, 2)})
    missing, refused = [], []
    for pair in pairs:
        tries = [one for one in past.together if set(pair) <= one.nodes]
        if not tries:
            missing.append(" and ".join(pair))
        elif not max(tries, key=lambda one: one.at).passed:
            refused.append(" and ".join(pair))
    if missing:
        answer.fail(f"never measured together: {named(missing)}, which one group of the instance spans", TOGETHER)
    if refused:
        answer.fail(f"measured together, and not passed: {named(refused)}", "repair or replace a node of them")
    if pairs and not missing and not refused:
        answer.say(f"all {len(pairs)} pairs of its hosts passed together")


def _size(size: int) -> str:
    for unit, count in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= count:
            return f"{size / count:g} {unit}" if size % count == 0 else f"{size / count:.1f} {unit}"
    return f"{size} bytes"
