"""`rankmuster admit` on one node by itself, with an end, and what its record says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rankmuster.adapters.admit_record import MOST_BYTES, NoRecord, read_record
from rankmuster.adapters.child import Ran
from rankmuster.adapters.into_file import last_words, run_into
from rankmuster.adapters.reach import after_begin, begun, on_node, same_host
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import RetestEnding

GRACE = 2.0
"""Between SIGTERM and SIGKILL: srun and ssh take what they have started with them."""

READ_SECONDS = 3.0
"""Of the deadline, kept for reading and verifying a record: the program's start on a busy node."""

SHORT = ("--runs", "1", "--retests", "0", "--dcgm-level", "0")
"""Of `admit`, between the end of a group and its start: one run, nothing that takes minutes."""

ONE_RUN_SHARE = {True: 0.8, False: 0.4}
"""Of the time there is, for one run of the benchmark, short or not: the rest is for the fingerprint and re-tests."""


@dataclass(frozen=True, slots=True)
class Alone:
    """`record`: where it lies; None where there is none."""

    ending: RetestEnding
    note: str
    record: Path | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """How it is run. `reach`: as in `adapters.reach`. `program`: on the node. `options`: the operator's own, `{node}`
    in them is the node; the last of an option counts."""

    reach: tuple[str, ...]
    program: tuple[str, ...]
    profile: str
    short_profile: str
    history: str | None
    options: tuple[str, ...]

    def command(self, node: str, seconds: float, *, short: bool) -> list[str]:
        """The command line for one node that has so many seconds."""
        limit = max(seconds * ONE_RUN_SHARE[short], 1.0)
        ours = ["admit", "--format", "json", "--profile", self.short_profile if short else self.profile]
        ours += ["--time-limit", f"{limit:.0f}", *(SHORT if short else ())]
        ours += ["--history", self.history] if self.history is not None else []
        options = [one.replace("{node}", node) for one in self.options]
        return on_node(self.reach, node, [*self.program, *ours, *options])


def admit_alone(
    admission: Admission, node: str, names: Sequence[str], record: Path, deadline: Deadline, *, short: bool
) -> Alone:
    """`names`: what the node calls itself. A check that hangs is a FAIL, one that was not begun an ERROR."""
    seconds = deadline.remaining() - GRACE - READ_SECONDS
    if seconds <= 0:
        return Alone(RetestEnding.ERROR, f"{node} was not tested: no time was left")
    ran = run_into(
        record,
        admission.command(node, seconds, short=short),
        seconds=seconds,
        grace=GRACE,
        clock=deadline.clock,
        most_bytes=MOST_BYTES,
    )
    if ran.problem:
        return Alone(RetestEnding.ERROR, f"admit on {node}: {ran.problem}")
    if ran.late:
        return _late(ran, node, record)
    try:
        read = read_record(record, deadline)
    except NoRecord as error:
        words = last_words(Ran(ran.status, ran.seconds, after_begin(ran.output)))
        return Alone(RetestEnding.ERROR, f"admit on {node}: {error} ({words})")
    if not any(same_host(one, name) for one in read.nodes for name in names):
        told = ", ".join(read.nodes) or "nobody"
        note = f"the record is of {told}, and {node} was asked: if they are one, name both under `nodes`"
        return Alone(RetestEnding.ERROR, note, record)
    return Alone(read.ending, f"alone {read.ending.value}: {read.reason}", record)


def _late(ran: Ran, node: str, record: Path) -> Alone:
    if ran.hurried:
        return Alone(RetestEnding.ERROR, f"admit on {node} wrote more than {MOST_BYTES >> 20} MiB, and was ended")
    if not begun(ran.output):
        words = last_words(ran) if ran.output.strip() else "nothing was said"
        note = f"after {ran.seconds:.0f} s nothing had begun on {node} ({words}): it is not reached, or takes no work"
        return Alone(RetestEnding.ERROR, note)
    note = f"admit hung on {node}: it had not ended after {ran.seconds:.0f} s; a hung check is a failed check"
    return Alone(RetestEnding.FAIL, note, record if record.exists() else None)
