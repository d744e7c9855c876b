"""How incidents are said: endings, outcomes and steps as signs and words of the one theme, and actions as sentences."""

from __future__ import annotations

from rankmuster.model.incident import Course, Ending, Outcome, RetestEnding, Step
from rankmuster.report.incident_account import Did, Stage
from rankmuster.report.inert import plain
from rankmuster.report.theme import Look
from rankmuster.report.words import span

MOST_NOTE = 600
"""Characters of one note shown: it may hold what a gateway or a scheduler answered."""

ENDINGS: dict[Ending | None, Look] = {
    Ending.DONE: Look("healthy", "✓", "done", "green", "+"),
    Ending.PARTIAL: Look("suspect", "◇", "partial", "yellow", "~"),
    Ending.FAILED: Look("culprit", "◆", "failed", "bold red", "*"),
    Ending.TIMED_OUT: Look("culprit", "■", "timed out", "bold red", "#"),
    Ending.SKIPPED: Look("victim", "○", "skipped", "cyan", "."),
    Ending.OBSERVED: Look("victim", "◎", "observed", "cyan", "o"),
    Ending.REFUSED: Look("suspect", "◇", "refused", "bold yellow", "~"),
    Ending.NODE: Look("culprit", "◆", "node", "bold red", "*"),
    Ending.UNKNOWN: Look("unsure", "?", "unknown", "bold magenta", "?"),
    None: Look("unsure", "…", "running", "bold", ">"),
}

WAITING = Look("victim", "·", "waiting", "dim", ".")
"""A step that is planned and has not begun."""

OUTCOMES: dict[Outcome | None, Look] = {
    Outcome.RECOVERED: Look("healthy", "✓", "recovered", "bold green", "+"),
    Outcome.RESTORED: Look("healthy", "✓", "restored", "bold green", "+"),
    Outcome.OBSERVED: Look("victim", "◎", "observed", "bold cyan", "o"),
    Outcome.HELD: Look("suspect", "◇", "held", "bold yellow", "~"),
    Outcome.ABORTED: Look("suspect", "◇", "aborted", "bold yellow", "~"),
    Outcome.GAVE_UP: Look("culprit", "◆", "gave up", "bold red", "*"),
    Outcome.FAILED: Look("culprit", "◆", "failed", "bold red", "*"),
    None: Look("unsure", "…", "open", "bold", ">"),
}

MEANINGS: dict[Outcome, str] = {
    Outcome.RECOVERED: "it serves again after what was done",
    Outcome.RESTORED: "nothing had to be done, traffic is back",
    Outcome.OBSERVED: "it is only said what would have been done",
    Outcome.HELD: "nobody approved in time",
    Outcome.ABORTED: "by an operator",
    Outcome.GAVE_UP: "the total deadline passed; the GPUs came first",
    Outcome.FAILED: "a step that everything else needs did not come to its end",
}

RETESTS: dict[RetestEnding, Look] = {
    RetestEnding.PASS: Look("healthy", "✓", "passed", "green", "+"),
    RetestEnding.FAIL: Look("culprit", "◆", "failed", "bold red", "*"),
    RetestEnding.PROVISIONAL: Look("suspect", "◇", "provisional", "yellow", "~"),
    RetestEnding.ERROR: Look("unsure", "?", "error", "bold magenta", "?"),
    RetestEnding.NOT_TESTED: Look("victim", "○", "not tested", "cyan", "."),
}

COURSES: dict[Course, str] = {
    Course.REBUILD: "the whole process group is rebuilt",
    Course.SHED: "load is shed from it, nothing is rebuilt",
    Course.CUT: "the requests that run are ended, the instance stays",
    Course.RESTORE: "nothing is rebuilt, traffic is given back",
    Course.HOLD: "nothing is done until an operator says so",
}

STEPS: dict[Step, str] = {
    Step.SHED: "give it less load",
    Step.STOP_TRAFFIC: "stop new requests",
    Step.DRAIN: "let running requests end",
    Step.EVIDENCE: "save evidence",
    Step.DIAGNOSE: "reach a verdict",
    Step.DECIDE: "decide what is done",
    Step.APPROVE: "wait for an operator",
    Step.FENCE: "fence the suspect nodes",
    Step.CUT: "end what still runs with an error",
    Step.TERMINATE: "end the whole process group",
    Step.SHORT_RETEST: "re-test the suspects, short",
    Step.START: "start the whole process group",
    Step.VERIFY: "see that it serves",
    Step.RECOVER: "wait until it recovers",
    Step.RESTORE: "give traffic back",
    Step.RETEST: "re-test the suspects",
    Step.SETTLE: "quarantine or let in",
}


def look_of(stage: Stage) -> Look:
    """How a step stands."""
    if stage.ending is None and stage.begun_at is None:
        return WAITING
    return ENDINGS[stage.ending]


def took_words(stage: Stage, now: float) -> str:
    """`3.2 s of 22.0 s`: how long it took, of what it may take; of one that runs, until now."""
    allowed = stage.seconds
    if stage.deadline_at is not None and stage.begun_at is not None:
        allowed = stage.deadline_at - stage.begun_at
    of = f" of {length(allowed)}" if allowed is not None and allowed > 0 else ""
    if stage.begun_at is None:
        return f"may take {length(allowed)}" if of and allowed is not None and stage.ending is None else ""
    took = stage.took if stage.took is not None else max(0.0, now - stage.begun_at)
    return f"{span(took)}{of}"


def length(seconds: float) -> str:
    """A limit as people set it: `10 min` rather than `10 min 0 s`."""
    words = span(seconds)
    return words.removesuffix(" 0 s").removesuffix(" 0 min").replace(".0 s", " s")


def did_words(did: Did) -> str:
    """What came of one action, in one sentence."""
    words = plain(did.note, MOST_NOTE) if did.note else ""
    if did.ending is Ending.OBSERVED and did.would:
        words = words.partition("; it would: ")[0]  # told line by line beside it
    if did.found and "found done" not in words:
        words = f"found done after a crash{': ' if words else ''}{words}"
    if did.again:
        words += f"{'; ' if words else ''}begun again after a crash"
    return words


def since(start: float, at: float) -> str:
    """`+3.2 s`: a time as seconds from the opening."""
    delta = at - start
    return f"{'-' if delta < 0 else '+'}{span(abs(delta))}" if abs(delta) >= 0.05 else "+0 s"


def plural(count: int) -> str:
    return "" if count == 1 else "s"
