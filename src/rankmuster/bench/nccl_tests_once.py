"""One process of nccl-tests: started, bounded, and read, from what it printed and from its JSON together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.bench.bounded_process import Ended, run_bounded
from rankmuster.bench.nccl_tests_find import Binary
from rankmuster.evidence.nccl_tests import read_json, read_text
from rankmuster.evidence.nccl_tests_merge import WORST_FIRST
from rankmuster.model.benchmark import BenchmarkRun, RunState

MOST_JSON = 256 << 20
"""Bytes of its JSON: a million iterations have 20 MB."""

LATER_SECONDS = 60
"""After our own time limit the program's own ends it: late enough never to be taken for how a run ended."""

LAST_LINE = 160
"""Characters of the last printed line that a reason quotes."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where one process puts what it writes; `name` begins every file."""

    folder: Path
    name: str

    @property
    def output(self) -> Path:
        """What it prints."""
        return self.folder / f"{self.name}.txt"

    @property
    def json(self) -> Path:
        """What it writes with -J."""
        return self.folder / f"{self.name}.json"


def run_once(
    binary: Binary,
    options: Sequence[str],
    *,
    place: Place,
    environment: Mapping[str, str],
    seconds: float,
    launcher: Sequence[str] = (),
    started: Callable[[int], None] | None = None,
    looked: Callable[[], None] | None = None,
) -> BenchmarkRun:
    """The run of one process, never an exception for what the process does."""
    extra = ["-J", str(place.json)] if "-J" in binary.options else []
    if "-T" in binary.options:
        # should this program be killed before it can end the other: a hang then ends by itself
        extra += ["-T", str(int(seconds) + LATER_SECONDS)]
    command = [*launcher, str(binary.path), *options, *extra]
    ended = run_bounded(
        command,
        environment=environment,
        output=place.output,
        seconds=seconds,
        folder=place.folder,
        started=started,
        looked=looked,
    )
    text = read_text(ended.output, binary.path.name)
    try:
        with place.json.open("rb") as file:
            run = combined(text, read_json(file.read(MOST_JSON), binary.path.name))
    except OSError:
        run = text  # a version without -J, or one that died before it wrote
    return replace(judged(run, ended, seconds), command=tuple(command))


def combined(text: BenchmarkRun, json: BenchmarkRun) -> BenchmarkRun:
    """What was printed, with the JSON's digits and iterations where it has them.

    The text decides how it ended: a process that died leaves a cut JSON, but may have printed all. Wrong values count
    wherever they stand.
    """
    exact = {one.cell: one for one in json.measurements}
    cells = {one.cell for one in text.measurements}
    measured = [exact.get(one.cell, one) for one in text.measurements]
    measured += [one for one in json.measurements if one.cell not in cells]
    state, reason = text.state, text.reason
    if json.state is RunState.WRONG and WORST_FIRST.index(state) > WORST_FIRST.index(RunState.WRONG):
        state, reason = json.state, json.reason
    elif state is RunState.COMPLETE and json.state is not RunState.COMPLETE:
        reason = "; ".join(part for part in (reason, f"its JSON file is not whole: {json.reason}") if part)
    return replace(
        text,
        state=state,
        reason=reason,
        nccl_version=text.nccl_version or json.nccl_version,
        started_at=json.started_at,
        ranks=text.ranks or json.ranks,
        settings=text.settings or json.settings,
        rank_count=text.rank_count if text.ranks else json.rank_count,
        measurements=tuple(measured),
    )


def judged(run: BenchmarkRun, ended: Ended, seconds: float) -> BenchmarkRun:
    """The run with how its process ended: status 0 proves nothing, anything else disproves."""
    if ended.timed_out:
        last = _last_line(ended.output)
        said = f", printed last: {last!r}" if last else ", and had printed nothing"
        return replace(run, state=RunState.HUNG, reason=f"it {ended.story} after {seconds:.0f} s{said}")
    if ended.story and run.state is RunState.COMPLETE:
        return replace(run, state=RunState.ERROR, reason=f"it printed all its results and {ended.story}")
    if ended.story and run.state is not RunState.WRONG:
        state = RunState.ERROR if run.state is RunState.INCOMPLETE else run.state
        return replace(run, state=state, reason="; ".join(part for part in (f"it {ended.story}", run.reason) if part))
    return run


def _last_line(output: bytes) -> str:
    lines = [" ".join(line.split()) for line in output[-8192:].decode("utf-8", errors="replace").splitlines()]
    return next((line[:LAST_LINE] for line in reversed(lines) if line), "")
