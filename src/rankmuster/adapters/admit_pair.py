"""A suspect measured together with a node that is known to be good: `rankmuster bench pairs`, then `admit pairs`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.admit_record import MOST_BYTES, OWN, NoRecord, read_record
from rankmuster.adapters.child import Ran, run_child
from rankmuster.adapters.into_file import ROOT, last_words, read_most
from rankmuster.baseline.pairs_file import NotPairs, read_lines
from rankmuster.collect.deadline import Deadline
from rankmuster.model.benchmark import RunState
from rankmuster.model.incident import RetestEnding
from rankmuster.report.inert import plain

GRACE = 3.0
"""Between SIGTERM and SIGKILL: the launcher takes the ranks with it."""

JUDGE_SECONDS = 4.0
"""Of the deadline, kept for `admit pairs` and for verifying its record."""

LIMIT_SHARE = 0.8
"""Of the time there is, for the pair itself: `bench pairs` ends it by then and says how it ended."""


@dataclass(frozen=True, slots=True)
class Paired:
    """`record`: where it lies; None where there is none."""

    ending: RetestEnding
    note: str
    record: Path | None = None


def measure_command(node: str, good: str, options: Sequence[str], results: Path, seconds: float) -> list[str]:
    """`options`: the launcher's and `--floor`, as `bench pairs` takes them; the last of an option counts."""
    both = ["--nodes", f"{node},{good}", "--trusted", good, "--save", str(results)]
    return [*OWN, "bench", "pairs", *both, "--time-limit", f"{max(seconds * LIMIT_SHARE, 1.0):.0f}", *options]


def judge_command(node: str, good: str, options: Sequence[str], results: Path, record: Path) -> list[str]:
    floor = _floor(options)
    words = ["--node", node, "--node", good, "--trust", good, *(["--floor", floor] if floor is not None else [])]
    return [*OWN, "admit", "pairs", str(results), *words, "--format", "json", "--output", str(record)]


def admit_pair(node: str, good: str, options: Sequence[str], folder: Path, deadline: Deadline) -> Paired:
    """Files of it are made in `folder`, which exists."""
    results, record = folder / f"pair-{node}-{good}.jsonl", folder / f"pair-{node}-{good}.json"
    both = f"{node} with {good}"
    seconds = deadline.remaining() - GRACE - JUDGE_SECONDS
    if seconds <= 0:
        return Paired(RetestEnding.ERROR, f"{both}: no time was left")
    try:
        for one in (results, record):
            one.unlink(missing_ok=True)
    except OSError as error:
        return Paired(RetestEnding.ERROR, f"{both}: {error.filename} is in the way ({error.strerror})")
    ran = _run(measure_command(node, good, options, results, seconds), seconds, deadline)
    if not results.is_file():
        if ran.late:
            note = f"{both}: measuring hung, and was ended after {ran.seconds:.0f} s"
            return Paired(RetestEnding.FAIL, note)
        return Paired(RetestEnding.ERROR, f"{both}: nothing was measured ({last_words(ran)})")
    try:
        measured = read_lines(read_most(results, MOST_BYTES) or b"", str(results))
    except NotPairs as error:
        return Paired(RetestEnding.ERROR, f"{both}: {error}")
    if all(one.ended is RunState.ERROR for one in measured):
        words = plain(measured[-1].reason, 300) if measured else last_words(ran)
        return Paired(RetestEnding.ERROR, f"{both}: nothing was measured ({words})", results)
    judged = _run(judge_command(node, good, options, results, record), deadline.remaining() - GRACE / 3, deadline)
    try:
        read = read_record(record, deadline)
    except NoRecord as error:
        return Paired(RetestEnding.ERROR, f"{both}: {error} ({last_words(judged)})")
    return Paired(read.ending, f"with {good} {read.ending.value}: {read.reason}", record)


def _run(command: Sequence[str], seconds: float, deadline: Deadline) -> Ran:
    return run_child(
        command,
        seconds=max(seconds, 0.1),
        grace=GRACE if seconds > GRACE else 0.2,
        clock=deadline.clock,
        cwd=ROOT,
        step_back=False,
        whole_group=False,  # `bench pairs` ends its ranks itself
    )


def _floor(options: Sequence[str]) -> str | None:
    """What `bench pairs` is told of a floor."""
    found = None
    for place, option in enumerate(options):
        if option == "--floor" and place + 1 < len(options):
            found = options[place + 1]
        elif option.startswith("--floor="):
            found = option.partition("=")[2]
    return found
