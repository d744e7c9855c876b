"""What the runs of a drill add up to, and whether that is enough: the numbers, their bars, and the reasons in words."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rankmuster.model.drill_run import DrillRun

DETECTED_SECONDS = 15.0
"""From a fault to the alarm. What the watch is built for: three looks (docs/watch.md)."""
DETECTED_SHARE = 0.95
"""Of the faults, at least, told in that time: a busy host may delay one look in twenty."""
NAMED_SECONDS = 20.0
"""From a fault to the verdict with the right class and culprit: the alarm, two looks of `collect`, and `diagnose`."""
NAMED_SHARE = 0.90
"""Of the faults, at least, named rightly in that time: a dump that does not come costs `collect` its patience."""
BACK_SHARE = 1.0
"""Of the faults after which the group is rebuilt: one that does not come back is an outage, and no rate excuses it."""
EVIDENCE_SHARE = 1.0
"""Evidence before kill is an invariant, no rate."""
CONTROLS = ("healthy", "idle", "long-prefill", "contended", "restart")
"""Negative controls that belong to every drill: without one of them nobody knows whether that raises an alarm."""

OWN_CONTROLS = ("healthy",)
"""Of a user's own job, which the drill touches by one signal alone."""

BEFORE, AGAIN = "told before the fault: ", "diagnosed again"
"""How two of the words in `wrongs` begin, which the card counts elsewhere."""
MOST_ODD = 300
"""Characters of what is wrong with one run among the reasons; the row has all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Numbers:
    """Shares are None where nothing is to be counted. `faults`: that were made; `late` of them take longer than
    `DETECTED_SECONDS` by nature, `late_detected` in their own time, and are not in `detected`. `named`: over all,
    each in its own time. `evidence`: a whole bundle, on disk before anything was ended. `odd`: faults of which
    something is wrong that no other number counts, see `oddities`. Seconds of detection and of naming are
    percentiles (nearest rank) over the runs that were detected, and named, in `faults` less `late`."""

    faults: int
    late: int
    controls: int
    left_out: int
    not_made: int
    detected: float | None
    late_detected: float | None
    named: float | None
    culprits_wrong: int
    controls_quiet: int
    evidence: float | None
    back: float | None
    again_differs: int
    odd: int
    detected_p50: float | None
    detected_p95: float | None
    named_p50: float | None
    named_p95: float | None
    back_p50: float | None
    back_p95: float | None


def is_late(run: DrillRun) -> bool:
    """Whether this fault cannot be told in `DETECTED_SECONDS`, whatever watches it."""
    return run.most_seconds > DETECTED_SECONDS


def in_time(run: DrillRun) -> bool:
    """Whether it was detected within its own time; what was told before the fault tells something else."""
    return run.detected and _within(run.detected_seconds, detection_bar(run))


def detection_bar(run: DrillRun) -> float:
    """Seconds within which this fault has to be told."""
    return max(run.most_seconds, DETECTED_SECONDS)


def naming_bar(run: DrillRun) -> float:
    """Seconds within which it has to be named: what evidence and diagnosis may take comes on top of the detection."""
    return detection_bar(run) + NAMED_SECONDS - DETECTED_SECONDS


def named_in_time(run: DrillRun) -> bool:
    """Whether class and culprit were right, in time."""
    said = run.class_right is True and run.culprit_right is not False and not run.culprit_wrong
    return said and _within(run.named_seconds, naming_bar(run))


def back_in_time(run: DrillRun) -> bool:
    """Whether it served again within the runbook's budget."""
    return run.service_back is True and _within(run.back_seconds, run.budget_seconds)


def quiet(run: DrillRun) -> bool:
    """Of a control: no alarm, no action, and nothing else odd."""
    return not run.alarms and not run.incidents and not run.wrongs


def is_rebuilt(run: DrillRun) -> bool:
    """Whether the runbook saves evidence and rebuilds the group for it, so that all of that must be known: a fault
    of a serving group, but for those that are late by nature (loss of speed, torch's own time-out), for which nobody
    is ended."""
    return run.kind == "fault" and run.made and run.phase == "serving" and not is_late(run)


def bars(run: DrillRun) -> tuple[str, ...]:
    """What of a fault's row the numbers judge and is not as it should be, in words. A card keeps these words, and a
    word that is not among them is something else: they stay as they are."""
    if not run.made:
        return ()
    found = []
    if not run.detected:
        found.append("it was not told")
    elif not in_time(run):
        found.append(f"told after {run.detected_seconds or 0.0:.1f} s, not within {detection_bar(run):.0f} s")
    if run.said_class is None:
        found.append("there is no verdict")
    elif run.class_right is False:
        wanted = " or ".join(run.expected_classes)
        kinds = f": {' or '.join(run.expected_subclasses)}" if run.expected_subclasses else ""
        said = run.said_class + (f": {run.said_subclass}" if run.said_subclass else "")
        found.append(f"the verdict is {said}, not {wanted}{kinds}")
    if run.culprit_wrong:
        found.append(f"named was {list(run.culprits)}, not {run.expected_culprit}")
    elif run.culprit_right is False:
        found.append(f"rank {run.expected_culprit} was not named")
    if run.named_seconds is not None and not _within(run.named_seconds, naming_bar(run)):
        found.append(f"named after {run.named_seconds:.1f} s, not within {naming_bar(run):.0f} s")
    if run.evidence_saved is False:
        found.append("no whole bundle was saved")
    if run.evidence_first is False:
        found.append("the group was ended before all evidence was saved")
    if run.service_back is not None and not back_in_time(run):
        budget = f"{run.budget_seconds:.0f} s" if run.budget_seconds is not None else "its budget"
        found.append(f"service was not back within {budget}")
    return tuple(found)


def oddities(run: DrillRun) -> tuple[str, ...]:
    """Of a fault: what must not be and no share excuses, in words. An alarm before it, a time before it, more than
    one incident for it, and all that is wrong and that no other number judges."""
    found = [f"{BEFORE}{alarm}" for alarm in run.alarms]
    times = (("detected", run.detected_seconds), ("named", run.named_seconds), ("back", run.back_seconds))
    found += [f"{name} {-at:.1f} s before the fault" for name, at in times if at is not None and at < 0]
    if run.incidents > 1:
        found.append(f"{run.incidents} incidents were opened for one fault")
    judged = bars(run)
    others = (one for one in run.wrongs if one not in judged)
    found += [one for one in others if run.again is not False or not one.startswith(AGAIN)]
    return tuple(dict.fromkeys(found))


def numbers(runs: Sequence[DrillRun]) -> Numbers:
    """All of them in a few numbers."""
    faults = [run for run in runs if run.kind == "fault" and run.made]
    late, prompt = [run for run in faults if is_late(run)], [run for run in faults if not is_late(run)]
    controls = [run for run in runs if run.kind == "control" and run.made]
    evidence = [
        run.evidence_saved and run.evidence_first is not False for run in faults if run.evidence_saved is not None
    ]
    back = [run for run in faults if run.service_back is not None]
    detected = [run.detected_seconds for run in prompt if run.detected and run.detected_seconds is not None]
    named = [run.named_seconds for run in prompt if run.named_seconds is not None]
    returned = [run.back_seconds for run in back if run.back_seconds is not None]
    return Numbers(
        faults=len(faults),
        late=len(late),
        controls=len(controls),
        left_out=sum(run.kind == "left_out" for run in runs),
        not_made=sum(run.kind != "left_out" and not run.made for run in runs),
        detected=_share(in_time(run) for run in prompt),
        late_detected=_share(in_time(run) for run in late),
        named=_share(named_in_time(run) for run in faults),
        culprits_wrong=sum(run.culprit_wrong for run in faults),
        controls_quiet=sum(quiet(run) for run in controls),
        evidence=_share(evidence),
        back=_share(back_in_time(run) for run in back),
        again_differs=sum(run.again is False for run in runs),
        odd=sum(bool(oddities(run)) for run in faults),
        detected_p50=_percentile(detected, 0.50),
        detected_p95=_percentile(detected, 0.95),
        named_p50=_percentile(named, 0.50),
        named_p95=_percentile(named, 0.95),
        back_p50=_percentile(returned, 0.50),
        back_p95=_percentile(returned, 0.95),
    )


def failures(runs: Sequence[DrillRun]) -> tuple[str, ...]:
    """What of it is below its bar, in words."""
    found, own = numbers(runs), [run for run in runs if run.kind == "fault" and run.made]
    words = []
    if found.detected is not None and found.detected < DETECTED_SHARE:
        prompt = [run for run in own if not is_late(run)]
        slow = [run for run in prompt if not in_time(run)]
        words.append(
            f"{len(prompt) - len(slow)} of {len(prompt)} faults were told within {DETECTED_SECONDS:.0f} s, and "
            f"{DETECTED_SHARE:.0%} must be: not {_names(slow)}"
        )
    if found.late_detected is not None and found.late_detected < DETECTED_SHARE:
        missed = _names(run for run in own if is_late(run) and not in_time(run))
        words.append(f"of the faults that take longer by nature, not told in their own time: {missed}")
    if found.named is not None and found.named < NAMED_SHARE:
        slow = [run for run in own if not named_in_time(run)]
        words.append(
            f"class and culprit were right within {NAMED_SECONDS:.0f} s for {len(own) - len(slow)} of {len(own)} "
            f"faults, and must be for {NAMED_SHARE:.0%}: not for {_names(slow)}"
        )
    if found.culprits_wrong:
        words.append(f"a wrong culprit was named: {_names(run for run in own if run.culprit_wrong)}")
    if found.evidence is not None and found.evidence < EVIDENCE_SHARE:
        lost = _names(run for run in own if run.evidence_saved is False or run.evidence_first is False)
        words.append(f"the evidence was not saved, or not before the group was ended: {lost}")
    if found.back is not None and found.back < BACK_SHARE:
        gone = _names(run for run in own if run.service_back is not None and not back_in_time(run))
        words.append(f"service was not back within the runbook's budget: {gone}")
    if found.controls_quiet < found.controls:
        loud = _names(run for run in runs if run.kind == "control" and run.made and not quiet(run))
        words.append(f"controls were not quiet: {loud}")
    if found.again_differs:
        words.append(
            f"diagnosed again, the bundle gives another verdict: {_names(r for r in runs if r.again is False)}"
        )
    for run in own:
        if odd := "; ".join(oddities(run)):
            words.append(f"{run.name}: {odd if len(odd) <= MOST_ODD else f'{odd[:MOST_ODD]}...'}")
    return tuple(words)


def gaps(runs: Sequence[DrillRun], wanted: Sequence[str] = CONTROLS) -> tuple[str, ...]:
    """Why these runs cannot pass, though nothing of them need be wrong: what is missing, in words. `wanted`: controls
    that have to be among them."""
    found, words = numbers(runs), []
    if not found.faults:
        words.append("no fault was made")
    else:
        if found.evidence is None:
            words.append("of no fault it is known whether its evidence was saved")
        if found.back is None:
            words.append("of no fault it is known whether service came back")
    present = {run.name for run in runs if run.kind == "control"}
    if not present:
        words.append("no controls were run, so nobody knows whether anything raises an alarm")
    elif missing := [name for name in wanted if name not in present]:
        words.append(f"controls that belong to every drill were not run: {', '.join(missing)}")
    if found.not_made:
        broken = _names(run for run in runs if run.kind != "left_out" and not run.made)
        words.append(f"something broke before these could be judged: {broken}")
    unsure = [run for run in runs if run.kind == "fault" and run.made and run.bundle is not None and run.again is None]
    if unsure:
        words.append(f"bundles were not diagnosed again: {_names(unsure)}")
    for run in runs:
        if lacking := _unknown(run):
            words.append(f"of {run.name} it is not known {', '.join(lacking)}")
    return tuple(words)


def _unknown(run: DrillRun) -> tuple[str, ...]:
    """What of a fault that is rebuilt is not known, in words. Without a bundle there is nothing to be first."""
    if not is_rebuilt(run):
        return ()
    found = []
    if run.evidence_saved is None:
        found.append("whether its evidence was saved")
    elif run.evidence_saved:
        if run.evidence_first is None:
            found.append("whether that was before the group was ended")
        if run.bundle is None:
            found.append("where its bundle is, and what that says again")
    if run.service_back is None:
        found.append("whether service came back")
    return tuple(found)


def _within(seconds: float | None, most: float | None) -> bool:
    """Whether it came after the fault, and in time; `most` None sets no end."""
    return seconds is not None and seconds >= 0 and (most is None or seconds <= most)


def _share(right: Iterable[bool | None]) -> float | None:
    each = [bool(one) for one in right]
    return sum(each) / len(each) if each else None


def _percentile(seconds: Sequence[float], part: float) -> float | None:
    """Nearest rank: a value that was measured."""
    ordered = sorted(seconds)
    return ordered[max(math.ceil(part * len(ordered)) - 1, 0)] if ordered else None


def _names(runs: Iterable[DrillRun]) -> str:
    return ", ".join(dict.fromkeys(run.name for run in runs))
