"""`rankmuster history add`: results of a benchmark, with the fingerprint of the node that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.given import profile_of, stored_fingerprint
from rankmuster.cli.history_named import check_measured_at, moment
from rankmuster.cli.history_place import HistoryPlace, filled
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, ExitStatus, doing
from rankmuster.model.benchmark import Operation, RunState
from rankmuster.report.history_words import when

if TYPE_CHECKING:
    from rankmuster.model.benchmark import BenchmarkRun, HistoryRun, Profile
    from rankmuster.model.fingerprint import Fingerprint
    from rankmuster.store.history import History


def add(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE...", help="What `rankmuster bench` or nccl-tests wrote; - is standard input."),
    ],
    fingerprint: Annotated[
        Path,
        typer.Option("--fingerprint", metavar="FILE", help="The node's, taken where and when it was measured."),
    ],
    profile: Annotated[
        str, typer.Option("--profile", metavar="NAME", help="What was measured: a built-in profile, or a file of one.")
    ],
    started: Annotated[
        str, typer.Option("--started-at", metavar="TIME", help="When, where a file does not say; UTC without a zone.")
    ] = "",
    operation: Annotated[
        Operation | None, typer.Option("--operation", help="What was measured, where the file does not say.")
    ] = None,
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Store benchmark runs and the fingerprint of their node: all of them, or nothing.

    A run that is there already is not stored again. Runs that did not complete are kept apart with their reason, and
    nothing is ever compared with them. A fingerprint of which a part is unknown belongs to no class, so that its runs
    cannot be stored.

    Exit status: 0 stored (or there already), 1 stored, and a run among them did not complete, 3 nothing was stored: a
    file cannot be read, the fingerprint does not fit, or bad usage.
    """
    known = stored_fingerprint(fingerprint)
    chosen = profile_of(profile)
    made = _history_runs(_runs(files, operation), known, chosen, started)

    def work(store: History) -> tuple[int, str]:
        from rankmuster.report.fingerprint_yaml import as_json

        return store.put_measured(known, as_json(known).encode(), made), store.name  # the form that `admit` stores

    stored, name = filled(history, "storing the runs", work)
    bad = [run for run in made if run.state is not RunState.COMPLETE]
    say(f"{name}: stored {stored} of {len(made)} runs of {chosen.key}; {len(made) - stored} were there already")
    for run in bad:
        say(f"a run is {run.state.value} and kept apart: {run.reason}")
    return ExitStatus.FAULT if bad else ExitStatus.HEALTHY


def _runs(files: Sequence[str], operation: Operation | None) -> list[BenchmarkRun]:
    found: list[BenchmarkRun] = []
    for name in files:
        with doing(f"reading {name}"):
            from rankmuster.bench.read_file import NoRuns, read_file

            try:
                found += read_file(name, operation)
            except NoRuns as error:
                raise CommandError(f"{error}; nothing was stored") from error
    return found


def _history_runs(runs: Sequence[BenchmarkRun], known: Fingerprint, profile: Profile, started: str) -> list[HistoryRun]:
    import time

    with doing("making the runs' records"):
        from rankmuster.bench.record import NoHistory, history_run

        now = time.time()
        at = moment(started, "--started-at", now) if started else None
        try:
            made = [history_run(run, known, profile, started_at=at) for run in runs]
        except NoHistory as error:
            raise CommandError(f"{error}; nothing was stored") from error
        for one, run in zip(made, runs, strict=True):
            what = f"--started-at {started}" if run.started_at is None else f"the start in {run.source}"
            check_measured_at(one.started_at, f"nothing was stored: {what} ({when(one.started_at)} UTC)", now)
        return made
