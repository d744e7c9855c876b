"""An admission's answer as it was asked for, and the exit status that it is."""

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING

from rankmuster.cli.output import write_file
from rankmuster.cli.status import CommandError, ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.model.admission import AdmissionRecord
    from rankmuster.model.history import ClassHistory


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"
    JUNIT = "junit"
    HTML = "html"


def text_of(record: AdmissionRecord, compared: ClassHistory | None, form: Format, output: Path | None) -> str:
    """The answer as it was asked for. `compared`: the history, for the pictures."""
    if form is Format.JSON:
        from rankmuster.report import admission_json

        return admission_json.render(record)
    if form is Format.JUNIT:
        from rankmuster.report import admission_junit

        return admission_junit.render(record)
    if form is Format.HTML:
        from rankmuster.report import admission_html

        return admission_html.render(record, compared)
    from rankmuster.cli.verdict_output import color_wanted, printed
    from rankmuster.report import admission_text

    return printed(
        lambda console: admission_text.render(record, console), width=None, color=color_wanted(False, output)
    )


def write_metrics(path: Path, record: AdmissionRecord) -> None:
    """For node_exporter's textfile collector."""
    from rankmuster.metrics.admission_drift import admission_page
    from rankmuster.metrics.scrape import MetricsUnavailable

    with doing("writing metrics"):
        try:
            write_file(path, admission_page(record))
        except MetricsUnavailable as error:
            raise CommandError(str(error)) from error


def status_of(record: AdmissionRecord) -> int:
    """0 pass, 1 fail, 2 provisional, 3 error."""
    from rankmuster.model.admission import Decision

    return {
        Decision.PASS: ExitStatus.HEALTHY,
        Decision.FAIL: ExitStatus.FAULT,
        Decision.PROVISIONAL: ExitStatus.UNDECIDED,
        Decision.ERROR: ExitStatus.NO_ANSWER,
    }[record.decision]
