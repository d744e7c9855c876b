"""One call of Slurm's `scontrol` or `squeue`, with an end. What it says is read as text: `--json` is missing where
Slurm was built without it (Debian's 22.05), and has changed its form between versions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rankmuster.adapters.child import environment, run_child
from rankmuster.collect.deadline import Deadline
from rankmuster.report.inert import plain

LEAST_SECONDS = 0.1
"""With less left nothing is begun: starting the program takes some hundredths of a second."""

GRACE = 0.1
"""Between SIGTERM and SIGKILL: it has nothing to finish."""

MARGIN = 0.1
"""Of the deadline, kept for ending what hangs."""

ROOT = "/"

_FORM = {"SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
"""What users set to change how times and messages look would change them for us too."""


@dataclass(frozen=True, slots=True)
class Said:
    """`text`: its output. `problem`: why it is no answer; empty where it ended with status 0. `late`: it was ended."""

    text: str
    problem: str = ""
    late: bool = False


class Scontrol:
    """`program`: `scontrol`, or the path of it; `squeue` is taken from the same folder."""

    def __init__(self, program: str = "scontrol", environ: Mapping[str, str] | None = None) -> None:
        self.program = program
        folder, slash, _ = program.rpartition("/")
        self.squeue = f"{folder}{slash}squeue"
        self._environ = environ

    def ask(self, arguments: Sequence[str], deadline: Deadline, *, program: str | None = None) -> Said:
        """Runs it, and returns by the deadline."""
        name = program or self.program
        what = plain(f"{os.path.basename(name)} {' '.join(arguments[:2])}", 120)
        if deadline.remaining() < LEAST_SECONDS:
            return Said("", f"{what}: no time was left for it", late=True)
        base = environment() if self._environ is None else dict(self._environ)
        ran = run_child(
            [name, *arguments],
            seconds=max(deadline.remaining() - GRACE - MARGIN, LEAST_SECONDS / 2),
            grace=GRACE,
            clock=deadline.clock,
            environ={**base, **_FORM},
            cwd=ROOT,
            step_back=False,
            whole_group=True,
        )
        if ran.problem:
            return Said("", f"{what}: {ran.problem}")
        if ran.late:
            return Said("", f"{what} had not answered after {ran.seconds:.1f} s, and was ended", late=True)
        text = ran.output.decode("utf-8", "replace")
        if ran.status != 0:
            return Said(text, f"{what}: {last_line(text) or f'exit status {ran.status}'}")
        if ran.dropped:
            return Said("", f"{what} answered with megabytes, which is no answer")
        return Said(text)


def last_line(text: str) -> str:
    """The last line that says something, inert."""
    lines = [line for line in text.splitlines() if line.strip()]
    return plain(lines[-1], 200) if lines else ""
