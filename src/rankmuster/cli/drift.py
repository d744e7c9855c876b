"""`rankmuster drift`: what changed about a node or a fleet since its baseline, and whether to stop a rollout."""

from __future__ import annotations

import os
import re
import time
from dataclasses import replace
from datetime import datetime, timezone
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, write_file
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.model.drift import DriftReport
    from rankmuster.model.fingerprint import Fingerprint
    from rankmuster.store.history import History

TAKE_SECONDS = 30.0
"""For this node's own fingerprint; what takes longer is unknown."""

DEFAULT_SINCE = "30d"

MOST_BYTES = 8 << 20
"""Of a fingerprint's file; one of eight GPUs and sixteen NICs takes 0.1 MB."""

_LENGTH = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])")
_SECONDS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


def drift(
    host: Annotated[
        str,
        typer.Option("--host", metavar="NAME", help="The node, by its host's name or node hash; default: this one."),
    ] = "",
    everybody: Annotated[
        bool, typer.Option("--all", help="Every node of which the history has a fingerprint.")
    ] = False,
    history: Annotated[
        str,
        typer.Option(
            "--history",
            metavar="URL",
            help="A file or postgresql:// URL; default: RANKMUSTER_HISTORY, then history.db in the state folder.",
        ),
    ] = "",
    fingerprint: Annotated[
        Path | None,
        typer.Option(
            "--fingerprint",
            metavar="FILE",
            help="What the node is now; default: taken live of this node, the newest stored one of others.",
        ),
    ] = None,
    since: Annotated[
        str,
        typer.Option(
            "--since", metavar="TIME", help="From when a change counts: 30d, 12h, a date, or `all`; default: 30d."
        ),
    ] = DEFAULT_SINCE,
    mark: Annotated[
        bool,
        typer.Option("--mark", help="Mark the steps found of whole classes in the history, open: nothing is accepted."),
    ] = False,
    metrics: Annotated[
        Path | None,
        typer.Option("--metrics", metavar="FILE", help="Also write metrics for node_exporter's textfile collector."),
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="terminal: to read; json: the schema.")] = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Compare a node, or the whole fleet, with its stored fingerprint and with its own past results.

    Says whether one node drifts or many of a class at once, what those have in common, and which baselines a change
    has made useless. Nothing is changed, and nothing is marked without --mark.

    Exit status: 0 no drift, 1 drift was found, 2 it cannot be told (a part is unknown, or results are too few),
    3 bad usage, or no history that could be read.
    """
    if everybody and (host or fingerprint is not None):
        raise CommandError("--all is every node; give it without --host and --fingerprint")
    now = time.time()
    begin = _since(since, now)
    live = _now(fingerprint, host or None, everybody, now)
    report = _examined(history, None if everybody else _name(host, live), live, begin, now, mark)
    with doing("writing what drifted"):
        text = _text(report, form, output)
    deliver(text, output)
    if metrics is not None:
        _write_metrics(metrics, report, now)
    return _status(report)


def _since(given: str, now: float) -> float | None:
    """Unix seconds; None for `all`. A date without a zone is UTC."""
    text = given.strip()
    if text == "all":
        return None
    length = _LENGTH.fullmatch(text)
    if length is not None:
        return now - float(length[1]) * _SECONDS[length[2]]
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise CommandError(
            f"--since {given!r} is no time: give 30d, 12h, 2026-11-03, 2026-11-03T14:00 or all"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    if moment.timestamp() > now:
        raise CommandError(f"--since {given!r} has not come yet; give a time before now")
    return moment.timestamp()


def _now(file: Path | None, host: str | None, everybody: bool, now: float) -> Fingerprint | None:
    """What the node is now; None where the newest stored fingerprint is to say."""
    from rankmuster.cli.drift_fleet import read_now

    if file is not None:
        return read_now(_bytes(file), str(file), host)
    if everybody:
        return None
    from rankmuster.collect.machine import Machine

    machine = Machine()
    if host is not None and host.split(".")[0] != machine.hostname:
        return None
    with doing("taking this node's fingerprint"):
        from rankmuster.baseline.fingerprint.build import fingerprint_of
        from rankmuster.collect.fingerprint.take import take

        path = take(machine, deadline_s=TAKE_SECONDS, environ=os.environ, now=lambda: now)
        return fingerprint_of(path)


def _bytes(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"cannot read {file}: {error.strerror or error}") from error
    if len(data) > MOST_BYTES:
        raise CommandError(f"{file} has more than {MOST_BYTES >> 20} MiB: it is no fingerprint")
    return data


def _name(host: str, live: Fingerprint | None) -> str:
    if host:
        return host
    if live is not None and live.host:
        return live.host
    raise CommandError("the fingerprint has no host's name; say with --host which node it is of")


def _examined(
    url: str, host: str | None, live: Fingerprint | None, since: float | None, now: float, mark: bool
) -> DriftReport:
    with doing("loading the program"):
        try:
            from rankmuster.store.errors import HistoryError
            from rankmuster.store.history import History
            from rankmuster.store.place import default_place
        except ImportError as error:
            raise CommandError(
                f"the history needs packages that are not installed ({error}); pip install 'rankmuster[history]'"
            ) from error
        from rankmuster.baseline.drift.examine import examine
        from rankmuster.baseline.drift.settings import DriftSettings
        from rankmuster.cli.drift_fleet import fleet_of
    try:
        with (
            doing("comparing with the history"),
            History.open(url or default_place(os.environ), create=False) as opened,
        ):
            fleet, refused = fleet_of(opened, host=host, live=live, since=since, now=now)
            if not fleet.nodes:
                raise CommandError(_nobody(host, opened.name))
            report = examine(fleet, DriftSettings(since=since))
            report = replace(report, unknown=(*report.unknown, *refused))
            return _marked(opened, report) if mark else report
    except HistoryError as error:
        raise CommandError(str(error)) from error


def _nobody(host: str | None, name: str) -> str:
    if host is None:
        return f"{name} has no fingerprint of any node; `rankmuster admit` stores one with each result"
    return (
        f"{name} has no fingerprint of {host}, and this is not that node: run it there, or give --fingerprint FILE; "
        "`rankmuster drift --all` lists what there is"
    )


def _marked(history: History, report: DriftReport) -> DriftReport:
    findings = []
    for one in report.findings:
        if one.point is not None and one.point.id is None:
            point = history.put_change(one.point)
            say(f"rankmuster: marked change point {point.id}, {point.state.value}: `rankmuster history` decides")
            one = replace(one, point=point)
        findings.append(one)
    return replace(report, findings=tuple(findings))


def _text(report: DriftReport, form: Format, output: Path | None) -> str:
    if form is Format.JSON:
        from rankmuster.report.drift_json import as_json

        return as_json(report)
    from rankmuster.cli.verdict_output import color_wanted, printed
    from rankmuster.report.drift_text import render

    return printed(lambda console: render(report, console), width=None, color=color_wanted(False, output))


def _write_metrics(path: Path, report: DriftReport, now: float) -> None:
    from rankmuster.metrics.admission_drift import drift_page
    from rankmuster.metrics.scrape import MetricsUnavailable

    with doing("writing metrics"):
        try:
            write_file(path, drift_page(report, now=now))
        except MetricsUnavailable as error:
            raise CommandError(str(error)) from error


def _status(report: DriftReport) -> int:
    from rankmuster.report.drift_words import Outcome, outcome

    answers = {
        Outcome.NONE: ExitStatus.HEALTHY,
        Outcome.DRIFT: ExitStatus.FAULT,
        Outcome.CANNOT_TELL: ExitStatus.UNDECIDED,
    }
    return answers[outcome(report)]
