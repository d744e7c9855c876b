"""The words of a drill's score card, for every form of it: the answer, the numbers beside their bars, and each row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rankmuster.model import drill_score as score
from rankmuster.model.drill_card import BUILT_IN, ScoreCard
from rankmuster.model.drill_run import DrillRun
from rankmuster.report.theme import Look
from rankmuster.report.words import clock

PASSED = Look("healthy", "✓", "passed", "bold green", "+")
FAILED = Look("culprit", "◆", "failed", "bold red", "*")
TOO_LITTLE = Look("unsure", "?", "not enough", "bold magenta", "?")
RIGHT, WRONG = Look("healthy", "✓", "right", "green", "+"), Look("culprit", "◆", "wrong", "bold red", "*")
LEFT_OUT = Look("unsure", "∅", "left out", "magenta", "-")
NOT_MADE = Look("unsure", "?", "not made", "bold magenta", "?")

HEAD = ("", "run", "told s", "by", "verdict", "culprit", "named s", "evidence", "back s", "again")
NOTHING = "-"
QUIET = "quiet: no alarm, no action"


@dataclass(frozen=True, slots=True)
class Bar:
    """One number beside what it has to be. `held`: None where there was nothing to measure."""

    name: str
    value: str
    wanted: str
    held: bool | None
    more: str = ""


def answer(card: ScoreCard) -> Look:
    """Whether it passed."""
    return {True: PASSED, False: FAILED, None: TOO_LITTLE}[card.passed]


def headline(card: ScoreCard) -> str:
    """Of what, where and when."""
    of = "the built-in instance" if card.target == BUILT_IN else f"instance {card.target}"
    shapes = list(dict.fromkeys(f"{run.backend}, {run.ranks} ranks" for run in card.runs if run.backend != "own"))
    host = card.machine.get("host") or "an unnamed host"
    jobs = f" ({'; '.join(shapes)})" if shapes else ""
    return f"a drill of {of}{jobs} on {host}, {clock(card.made_at, date=True)}"


def machine_words(card: ScoreCard) -> str:
    """What it ran on."""
    machine = card.machine
    gpus, versions = machine.get("gpus"), machine.get("versions")
    parts = [f"{machine.get('cpus')} CPUs"]
    if isinstance(gpus, list) and gpus:
        parts += [f"{one.get('count')} x {one.get('model')}" for one in gpus if isinstance(one, dict)]
    if isinstance(versions, dict):
        parts += [f"{name} {version}" for name, version in versions.items() if version]
    parts.append(f"class {(card.fingerprint.get('class_hash') or 'unknown')[:19]}")
    if card.artefact:
        parts.append(f"release {card.artefact}")
    return "; ".join(parts)


def bars(card: ScoreCard) -> tuple[Bar, ...]:
    """The numbers of the card, each beside its bar."""
    found = card.numbers
    prompt = found.faults - found.late
    rows = [
        Bar(
            "detected",
            _share(found.detected, prompt),
            f"{score.DETECTED_SHARE:.0%} within {score.DETECTED_SECONDS:.0f} s",
            _at_least(found.detected, score.DETECTED_SHARE),
            _seconds(found.detected_p50, found.detected_p95),
        )
    ]
    if found.late:
        rows.append(
            Bar(
                "detected, slow by nature",
                _share(found.late_detected, found.late),
                f"{score.DETECTED_SHARE:.0%} in their own time",
                _at_least(found.late_detected, score.DETECTED_SHARE),
            )
        )
    rows += [
        Bar(
            "class and culprit right",
            _share(found.named, found.faults),
            f"{score.NAMED_SHARE:.0%} within {score.NAMED_SECONDS:.0f} s",
            _at_least(found.named, score.NAMED_SHARE),
            _seconds(found.named_p50, found.named_p95),
        ),
        Bar("wrong culprits", str(found.culprits_wrong), "none", not found.culprits_wrong if found.faults else None),
        Bar("evidence first", _percent(found.evidence), "all", _at_least(found.evidence, score.EVIDENCE_SHARE)),
        Bar(
            "service back",
            _percent(found.back),
            "all, within the runbook's budget",
            _at_least(found.back, score.BACK_SHARE),
            _seconds(found.back_p50, found.back_p95),
        ),
        Bar(
            "controls quiet",
            f"{found.controls_quiet} of {found.controls}" if found.controls else "none were run",
            "all",
            found.controls_quiet == found.controls if found.controls else None,
        ),
        Bar("diagnosed again", f"{found.again_differs} differ", "none", not found.again_differs),
        Bar("otherwise wrong", f"{found.odd} of {found.faults}", "none", not found.odd if found.faults else None),
    ]
    return tuple(rows)


def look_of(run: DrillRun) -> Look:
    """How one row stands."""
    if run.kind == "left_out":
        return LEFT_OUT
    if not run.made:
        return NOT_MADE
    return WRONG if run.wrongs else RIGHT


def cells(run: DrillRun) -> tuple[str, ...]:
    """The row of a fault under `HEAD`, without the sign."""
    verdict = ": ".join(one for one in (run.said_class, run.said_subclass) if one) or NOTHING
    culprit = ", ".join(map(str, run.culprits)) or NOTHING
    evidence = {None: NOTHING, True: "saved", False: "not saved"}[run.evidence_saved]
    if run.evidence_saved and run.evidence_first is not None:
        evidence = "first" if run.evidence_first else "too late"
    again = {None: NOTHING, True: "same", False: "differs"}[run.again]
    back = _number(run.back_seconds) if run.service_back else NOTHING if run.service_back is None else "no"
    name = f"{run.name} (graph)" if run.graph else run.name
    told, named = _number(run.detected_seconds), _number(run.named_seconds)
    return name, told, run.detected_by or NOTHING, verdict, culprit, named, evidence, back, again


def sentence(run: DrillRun) -> str:
    """The row of a fault in words, for where a table has no room."""
    _, told, by, verdict, culprit, named, evidence, back, again = cells(run)
    parts = [
        f"told by {by} after {told} s" if run.detected else "not told",
        f"{verdict}, culprit {culprit}, after {named} s" if run.said_class else "no verdict",
    ]
    for name, word in (("evidence", evidence), ("service back", back), ("diagnosed again", again)):
        if word != NOTHING:
            parts.append(f"{name} {f'after {word} s' if word[0].isdigit() else word}")
    return "; ".join(parts)


def remarks(run: DrillRun) -> Sequence[str]:
    """What is to be said below a row."""
    return (run.why,) if run.kind == "left_out" else run.wrongs


def _number(seconds: float | None) -> str:
    return NOTHING if seconds is None else f"{seconds:.1f}"


def _percent(share: float | None) -> str:
    return "not measured" if share is None else f"{share:.0%}"


def _share(share: float | None, of: int) -> str:
    return "not measured" if share is None else f"{round(share * of)} of {of} ({share:.0%})"


def _seconds(p50: float | None, p95: float | None) -> str:
    return "" if p50 is None or p95 is None else f"p50 {p50:.1f} s, p95 {p95:.1f} s"


def _at_least(share: float | None, wanted: float) -> bool | None:
    return None if share is None else share >= wanted
