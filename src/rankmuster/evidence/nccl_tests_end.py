"""How a run of nccl-tests ended: complete only where everything that says so is there.

Exit status 0 proves nothing (`-h` and an unknown option end with it, and a launcher has a status of its own), so the
output decides: every size up to the last, `Out of bounds values : 0 OK`, `Avg bus bandwidth`. Texts: src/common.h and
src/common.cu of nccl-tests; those of launchers as Open MPI, Slurm and shells print them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from rankmuster.model.benchmark import RunState

SHOWN = 200
"""Characters of a line that are quoted."""


class Grade(IntEnum):
    """How much a line says of the end; of several the highest is quoted, and of these the first."""

    HINT = 1  # `# error:`, which NCCL also prints of an earlier, harmless one
    DEATH = 2  # a launcher or shell says that a process died
    OWN = 3  # nccl-tests itself says why
    TIME = 4  # ended by a time limit


_LINES = (
    (Grade.TIME, re.compile(r"Test timeout \(\d+s\)|DUE TO TIME LIMIT|\btimeout: sending signal")),
    (Grade.OWN, re.compile(r"Invalid number of GPUs: \d+ requested")),
    (Grade.OWN, re.compile(r"Test (?:NCCL|CUDA) failure |Test failure \S+:\d+|invalid size specified|invalid usage")),
    (Grade.OWN, re.compile(r"error while loading shared libraries: ")),
    (
        Grade.DEATH,
        re.compile(
            r"\bSegmentation fault\b|\bBus error\b|\(core dumped\)|^(?:Killed|Aborted|Terminated)\s*$"
            r"|exited on signal \d+|terminate called after throwing|slurmstepd: error: "
            r"|srun: error: .*(?:[Ee]xited|task)"
            r"|non-zero (?:exit )?(?:status|code)|oom[-_ ]kill|CANCELLED AT|MPI_ABORT was invoked"
        ),
    ),
    (Grade.HINT, re.compile(r"^\s*# error: \S")),
)
_WORDS = (
    *(
        "imeout",
        "TIME LIMIT",
        "Invalid number",
        "Test ",
        "invalid ",
        "error",
        "Segmentation",
        "Bus error",
        "core dumped",
    ),
    *(
        "Killed",
        "Aborted",
        "Terminated",
        "signal",
        "terminate called",
        "srun",
        "non-zero",
        "kill",
        "CANCELLED",
        "MPI_ABORT",
    ),
)
"""One of them stands in every line that a pattern above finds: logs of a million lines are passed over quickly."""

_USAGE_WORDS = ("USAGE", "minbytes", "option")
_USAGE = re.compile(r"^\s*USAGE: |\[-b,--minbytes <|: invalid option -- |: unrecognized option ")


@dataclass(frozen=True, slots=True)
class Failure:
    """`quote`: the line, in as many characters as a reason may have."""

    grade: Grade
    quote: str


def failure(line: str) -> Failure | None:
    """What a line says of a failure, or None."""
    if not any(word in line for word in _WORDS):
        return None
    for grade, pattern in _LINES:
        if pattern.search(line):
            return Failure(grade, " ".join(line.split())[:SHOWN])
    return None


def is_usage(line: str) -> bool:
    """Whether the tool printed how it is used, instead of measuring."""
    return any(word in line for word in _USAGE_WORDS) and _USAGE.search(line) is not None


@dataclass(frozen=True, slots=True)
class Facts:
    """What an output, text or JSON, says of its end.

    `unusable`: why its rows cannot be used at all. `gaps`: what is missing, as sentences. `bounds`: wrong checks of
    `Out of bounds values` and whether it was called FAILED, None where the line is missing. `wrong`: wrong elements of
    the rows. `average`: whether the average is there; `concluded`: the tool's last line.
    """

    rows: int
    unusable: str | None
    gaps: tuple[str, ...]
    bounds: tuple[int, bool] | None
    wrong: int
    average: bool
    concluded: bool
    failures: tuple[Failure, ...]
    usage: bool
    notes: tuple[str, ...] = ()


def ending(facts: Facts) -> tuple[RunState, str]:
    """The state, and why in words: what was quoted, what is missing, what else is worth knowing."""
    worst = max(facts.failures, key=lambda one: one.grade, default=None)
    if facts.unusable is not None:
        return RunState.ERROR, _said(facts.unusable, _quotes(facts.failures))
    bounds = facts.bounds
    if facts.wrong or (bounds is not None and (bounds[0] or bounds[1])):
        count = facts.wrong or (bounds[0] if bounds else 0)
        return RunState.WRONG, _said(f"wrong values: {count} (#wrong, Out of bounds values)", *facts.gaps)
    missing = list(facts.gaps)
    if facts.rows and bounds is None:
        missing.append("there is no line 'Out of bounds values'")
    if facts.rows and not facts.average and not facts.concluded:
        missing.append("there is no line 'Avg bus bandwidth'")
    if facts.rows and not missing:
        after = [f"its results were complete before: {one.quote}" for one in facts.failures[:1]]
        return RunState.COMPLETE, _said(*facts.notes, *after)
    if worst is not None and worst.grade is Grade.TIME:
        return RunState.HUNG, _said(f"ended by a time limit: {worst.quote}", *missing[:2])
    if worst is not None:
        return RunState.ERROR, _said(worst.quote, *missing[:2])
    if facts.usage:
        return RunState.ERROR, "it printed its usage and measured nothing: an option that this version does not know"
    if not facts.rows:
        return RunState.INCOMPLETE, _said("it ended before its first result", *facts.notes)
    return RunState.INCOMPLETE, _said(*missing, *facts.notes)


def _quotes(failures: Sequence[Failure]) -> str:
    worst = max(failures, key=lambda one: one.grade, default=None)
    return worst.quote if worst is not None else ""


def _said(*parts: str) -> str:
    return "; ".join(part for part in parts if part)
