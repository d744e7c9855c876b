"""`rankmuster drift`: what changed about a node or a fleet since its baseline, and whether to stop a rollout."""

from __future__ import annotations

import time
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.history_place import HistoryPlace, opened
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, write_file
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.model.drift import DriftReport
    from rankmuster.model.fingerprint import Fingerprint
    from rankmuster.store.history import History

DEFAULT_SINCE = "30d"
"""A creeping loss of 1 % a week is some 4 % by then: beyond what counts as drift."""


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
    history: HistoryPlace = "",
    fingerprint: Annotated[
        Path | None,
        typer.Option(
            "--fingerprint",
            metavar="FILE",
            help="What the node is now; default: taken live of this node, the newest stored one of others.",
        ),
    ] = None,
    pid: Annotated[
        int | None, typer.Option("--pid", min=1, help="Live: a process of the instance, whose libraries count.")
    ] = None,
    python: Annotated[
        Path | None, typer.Option("--python", metavar="FILE", help="Live: the Python that serves.")
    ] = None,
    image_digest: Annotated[
        str,
        typer.Option("--image-digest", metavar="DIGEST", help="Live: of the container's image, sha256:...; or none."),
    ] = "",
    engine: Annotated[
        str, typer.Option("--engine", metavar="NAME=VERSION", help="Live: the serving engine, vllm=0.15.1; or none.")
    ] = "",
    since: Annotated[
        str, typer.Option("--since", metavar="TIME", help="From when a change counts: 30d, 12h, a date, or all.")
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
    from rankmuster.cli.drift_now import Instance, from_file, live, since_of

    instance = Instance(pid, python, image_digest, engine)
    if everybody and (host or fingerprint is not None or instance.said):
        raise CommandError("--all is every node; give it without --host, --fingerprint and what is of one instance")
    if fingerprint is not None and instance.said:
        raise CommandError("--fingerprint says what the node is now; leave out --pid, --python and their like with it")
    now = time.time()
    begin = since_of(since, now)
    found: Fingerprint | None = None
    if fingerprint is not None:
        found = from_file(fingerprint, host or None)
    elif not everybody:
        found = live(host or None, instance)
    report = _examined(history, None if everybody else _name(host, found), found, begin, now, mark)
    with doing("writing what drifted"):
        text = _text(report, form, output)
    if metrics is not None:
        _write_metrics(metrics, report, now)
    deliver(text, output)
    return _status(report)


def _name(host: str, found: Fingerprint | None) -> str:
    if host and (found is None or not found.host or host.split(".")[0] != found.host.split(".")[0]):
        return host
    if found is not None and found.host:
        return found.host
    raise CommandError("the fingerprint has no host's name; say with --host which node it is of")


def _examined(
    url: str, host: str | None, found: Fingerprint | None, since: float | None, now: float, mark: bool
) -> DriftReport:
    with opened(url, "comparing with the history") as store:
        from rankmuster.baseline.drift.examine import examine
        from rankmuster.baseline.drift.settings import DriftSettings
        from rankmuster.cli.drift_fleet import fleet_of

        fleet, refused = fleet_of(store, host=host, live=found, since=since, now=now)
        if not fleet.nodes:
            raise CommandError(_nobody(host, store.name))
        report = examine(fleet, DriftSettings(since=since))
        report = replace(report, unknown=(*report.unknown, *refused))
        return _marked(store, report) if mark else report


def _nobody(host: str | None, name: str) -> str:
    if host is None:
        return f"{name} has no fingerprint and no result of any node; `rankmuster admit` stores both"
    return (
        f"{name} has no fingerprint and no result of {host}, and this is not that node: run it there, or give "
        "--fingerprint FILE; `rankmuster drift --all` shows which nodes there are"
    )


def _marked(history: History, report: DriftReport) -> DriftReport:
    findings = []
    for one in report.findings:
        if one.point is not None and one.point.id is None:
            point = history.put_change(one.point)
            say(
                f"rankmuster: change point {point.id} is marked, {point.state.value}; decide about it by "
                f"`rankmuster history changes accept {point.id}` or `dismiss {point.id}`"
            )
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
            page = drift_page(report, now=now)
        except MetricsUnavailable as error:
            raise CommandError(str(error)) from error
    write_file(path, page)
    say(f"wrote {path}")


def _status(report: DriftReport) -> int:
    from rankmuster.report.drift_words import Outcome, outcome

    return {
        Outcome.NONE: ExitStatus.HEALTHY,
        Outcome.DRIFT: ExitStatus.FAULT,
        Outcome.CANNOT_TELL: ExitStatus.UNDECIDED,
    }[outcome(report)]
