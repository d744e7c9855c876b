"""Runs nccl-tests: one fresh process per series of sizes, stripped of its environment, bounded, and believed only as
far as its output goes (exit status 0 proves nothing: `-h` and an unknown option also end with 0)."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from rankmuster.bench.builtin.environment import safeguards
from rankmuster.bench.contention import Contention, ContentionWatch
from rankmuster.bench.nccl_tests_find import Binary, NcclTestsMissing, count_gpus, find
from rankmuster.bench.nccl_tests_once import Place, run_once
from rankmuster.bench.nccl_tests_series import Series, options_of, series_of
from rankmuster.bench.nccl_view import INIT_SUBSYSTEMS, TUNING_SUBSYSTEMS, view_of_log
from rankmuster.evidence.nccl_tests_environment import kept
from rankmuster.evidence.nccl_tests_merge import merged
from rankmuster.evidence.nccl_tests_sizes import ALIGNMENT
from rankmuster.model.benchmark import BenchmarkRun, Profile, RunState, Step
from rankmuster.report.size_words import size_words

__all__ = ["PASSED", "NcclTestsMissing", "run_nccl_tests"]

PASSED = ("PATH", "LD_LIBRARY_PATH", "HOME", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
"""Variables that a run takes over: to be found and loaded, and which GPUs. NCCL_* of a shell would change what is
measured without anybody having said so."""

TOPOLOGY_FILE = "topology.xml"
MOST_LOG = 64 << 20
"""Bytes of NCCL's logs that are read: eight ranks' INIT has 1 MB, TUNING a line for each operation."""

CHOICE_SECONDS = 120.0
"""Of the short process that logs NCCL's choices, at most: it does one iteration of each size."""

MOST_NAMED = 8

LEAST_SECONDS = 1.0
"""With less left of the time limit no further process is started."""


@dataclass(frozen=True, slots=True)
class _Part:
    step: Step
    series: Series
    binary: Binary


def run_nccl_tests(
    profile: Profile,
    *,
    gpus: int | None = None,
    environ: Mapping[str, str],
    now: Callable[[], float],
    given: Mapping[str, str] | None = None,
    folder: Path | None = None,
    time_limit_s: float = 600.0,
    choices: bool = True,
    keep: Path | None = None,
    launcher: Sequence[str] = (),
    contention: bool = True,
) -> BenchmarkRun:
    """One run of the profile. `gpus`: how many, None for the profile's or all that the tool sees.

    `environ`: where PATH, LD_LIBRARY_PATH, HOME, CUDA_VISIBLE_DEVICES and NCCL_TESTS_HOME are taken from, and nothing
    else; `given`: variables set for the run (NCCL_* are passed only when they stand here). `folder`: where the
    binaries are. `time_limit_s`: of the whole run; what does not end within it is killed with all its group, and the
    run is HUNG. `choices`: a short second process logs what NCCL chooses (logging each call would slow the measured).
    `keep`: a folder for output, JSON, logs and NCCL's dump of the topology, made where missing; otherwise they go.
    `launcher`: what starts a rank per GPU (`mpirun -np 16 ...`); then each has one GPU, and `gpus` is their number.
    `contention`: watch through NVML who else works on the GPUs; a run with foreign work is CONTENDED.

    Raises NcclTestsMissing where no usable program is found, or there are fewer than two GPUs.
    """
    needed = {name: environ[name] for name in PASSED if name in environ} | {"LC_ALL": "C"}
    environment = {**needed, **safeguards(environ), **(given or {})}
    binaries = find((step.operation for step in profile.steps), folder=folder, environ=environ, environment=environment)
    ranks = gpus or profile.ranks or count_gpus(next(iter(binaries.values())), environment)
    if ranks < 2:
        raise NcclTestsMissing(f"nccl-tests sees {ranks} GPUs, and communication needs two; see nvidia-smi -L")
    parts = [
        _Part(step, series, binaries[step.operation]) for step in profile.steps for series in series_of(step.sizes)
    ]
    end = time.monotonic() + time_limit_s
    began = now()
    runs: list[BenchmarkRun] = []
    with ExitStack() as stack:
        scratch = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankmuster-bench-")))
        scratch.mkdir(parents=True, exist_ok=True)
        watch = ContentionWatch() if contention else None
        if watch is not None:
            stack.callback(watch.close)
            watch.begin()
        each = _Starter(scratch, ranks, environment, launcher, watch)
        for number, part in enumerate(parts):
            left = end - time.monotonic()
            if left < LEAST_SECONDS:
                runs.append(_not_begun(runs, part, time_limit_s))
                break
            runs.append(each.measure(part, number, left))
            if runs[-1].state is RunState.HUNG:
                break  # what hangs once may hold the GPUs: the next would only hang too
        found = watch.finish(_used(runs)) if watch is not None else Contention()
        if choices:
            runs = each.with_choices(runs, parts, end)
    run = _contended(merged(runs), found)
    return replace(
        run,
        source=f"nccl-tests in {next(iter(binaries.values())).path.parent}",
        started_at=began,
        environment=kept(environment.items()),
        environment_whole=True,
    )


class _Starter:
    """Starts the processes of one run."""

    def __init__(
        self,
        scratch: Path,
        ranks: int,
        environment: Mapping[str, str],
        launcher: Sequence[str],
        watch: ContentionWatch | None,
    ) -> None:
        self._scratch = scratch
        self._ranks = ranks
        self._each = 1 if launcher else ranks
        self._environment = environment
        self._launcher = launcher
        self._watch = watch

    def measure(self, part: _Part, number: int, seconds: float) -> BenchmarkRun:
        """One series, measured; NCCL logs what it does while it connects, into a file."""
        place = Place(self._scratch, f"{number:02d}-{part.step.operation.value}")
        options = options_of(part.step, part.series, self._each, part.binary.options)
        run = self._run(part, options, place, seconds, INIT_SUBSYSTEMS)
        view = view_of_log(self._log(place), place.name)
        return replace(
            _as_asked(run, part, self._ranks),
            nccl_version=run.nccl_version or view.nccl_version,
            transports=view.transports or run.transports,
            channels=view.channels if view.channels is not None else run.channels,
        )

    def with_choices(self, runs: list[BenchmarkRun], parts: list[_Part], end: float) -> list[BenchmarkRun]:
        """The runs with what NCCL chooses for each size, asked in a process that does one iteration of each.

        Not to learn it is no fault of the run: it is said, and the run stays what it is.
        """
        found: list[BenchmarkRun] = []
        self._watch = None  # it has concluded
        for number, (run, part) in enumerate(zip(runs, parts, strict=False)):
            left = min(CHOICE_SECONDS, end - time.monotonic())
            if left < LEAST_SECONDS or run.state not in (RunState.COMPLETE, RunState.WRONG):
                found.append(run)
                continue
            place = Place(self._scratch, f"{number:02d}-{part.step.operation.value}-choices")
            once = replace(part.step, iterations=1, warmup=0)
            options = options_of(once, part.series, self._each, frozenset())
            self._run(part, options, place, left, TUNING_SUBSYSTEMS)
            view = view_of_log(self._log(place), place.name)
            operation = part.step.operation.value
            named = tuple(replace(one, operation=one.operation or operation) for one in view.choices)
            found.append(replace(run, choices=named))
        return found

    def _run(self, part: _Part, options: Sequence[str], place: Place, seconds: float, subsystems: str) -> BenchmarkRun:
        debug = {
            "NCCL_DEBUG": "INFO",
            "NCCL_DEBUG_SUBSYS": subsystems,
            "NCCL_DEBUG_FILE": str(self._scratch / f"{place.name}.nccl.%h.%p.log"),
            "NCCL_TOPO_DUMP_FILE": str(self._scratch / TOPOLOGY_FILE),
        }
        return run_once(
            part.binary,
            options,
            place=place,
            environment={**debug, **self._environment},
            seconds=seconds,
            launcher=self._launcher,
            started=None if self._watch is None else self._own,
            looked=None if self._watch is None else self._watch.poll,
        )

    def _own(self, pid: int) -> None:
        assert self._watch is not None
        self._watch.own((pid,))

    def _log(self, place: Place) -> bytes:
        found: list[bytes] = []
        room = MOST_LOG
        for path in sorted(self._scratch.glob(f"{place.name}.nccl.*.log")):
            with path.open("rb") as file:
                found.append(file.read(room))
            room -= len(found[-1])
        return b"\n".join(found)


def _as_asked(run: BenchmarkRun, part: _Part, ranks: int) -> BenchmarkRun:
    """The measurements of the placement that was asked for, under the sizes that were.

    nccl-tests measures both placements, and rounds a size down to what the ranks share evenly in 16 bytes: one
    profile has the same cells on three GPUs as on eight. What was asked for and not measured makes the run incomplete
    (a GPU whose memory others hold is measured up to less), and another type an error (a build without bfloat16
    measures float instead, and says so in a line).
    """
    asked = []
    for one in run.measurements:
        if one.cell.in_place != part.step.in_place:
            continue
        size = next(
            (size for size in part.series.sizes if 0 <= size - one.cell.size_bytes < ALIGNMENT * ranks),
            one.cell.size_bytes,
        )
        asked.append(replace(one, cell=replace(one.cell, size_bytes=size)))
    run = replace(run, measurements=tuple(asked))
    if run.state is not RunState.COMPLETE:
        return run
    other = next((one.cell.dtype for one in asked if one.cell.dtype != part.step.dtype), None)
    if other is not None:
        said = f"it measured {other} where {part.step.dtype} was asked for, which this build does not know"
        return replace(run, state=RunState.ERROR, reason=_and(run.reason, said), measurements=())
    missing = sorted(set(part.series.sizes) - {one.cell.size_bytes for one in asked})
    if missing:
        named = ", ".join(size_words(size) for size in missing[:MOST_NAMED])
        return replace(run, state=RunState.INCOMPLETE, reason=_and(run.reason, f"it did not measure {named}"))
    return run


def _and(reason: str, more: str) -> str:
    return f"{reason}; {more}" if reason else more


def _used(runs: Sequence[BenchmarkRun]) -> tuple[str, ...] | None:
    """Bus ids of the GPUs that were used; None where nothing says which."""
    found = {rank.bus_id for run in runs for rank in run.ranks if rank.bus_id is not None}
    return tuple(sorted(found)) or None


def _contended(run: BenchmarkRun, found: Contention) -> BenchmarkRun:
    """Foreign work spoils a run that is otherwise complete; that nobody could look is said."""
    state = RunState.CONTENDED if found.found and run.state is RunState.COMPLETE else run.state
    return replace(run, state=state, reason=_and(run.reason, found.reason) if found.reason else run.reason)


def _not_begun(runs: Sequence[BenchmarkRun], part: _Part, limit: float) -> BenchmarkRun:
    reason = f"the time limit of {limit:.0f} s was used up before {part.step.operation.value} began"
    base = runs[0] if runs else BenchmarkRun("", "nccl-tests", None, None, None, RunState.INCOMPLETE, "", (), ())
    return replace(base, state=RunState.INCOMPLETE, reason=reason, measurements=(), choices=())
