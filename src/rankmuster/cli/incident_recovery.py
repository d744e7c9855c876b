"""`rankmuster incident recovery`: what is rebuilt for which fault, with the operator's own rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rankmuster.cli.incident_list import Form, Format
from rankmuster.cli.incident_named import SettingsFile, settings_of
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, table_width
from rankmuster.cli.status import ExitStatus, doing

if TYPE_CHECKING:
    from rankmuster.incident.config import RecoveryRow
    from rankmuster.report.incident_recovery_text import OwnRow, TableRow


def recovery(
    config: SettingsFile = None,
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show the recovery table: the boundary of each class and sub-kind, and the rows of your settings before it.

    Exit status: 0 shown, 3 the settings cannot be used, or bad usage.
    """
    settings = settings_of(config)
    with doing("reading the recovery table"):
        from rankmuster.report.incident_recovery_text import recovery_json, recovery_text

        own, table = _own(settings.recovery), _table(settings.recovery)
        text = recovery_json(own, table) if form is Format.JSON else recovery_text(own, table, table_width())
    deliver(text, output)
    return ExitStatus.HEALTHY


def _own(rows: tuple[RecoveryRow, ...]) -> tuple[OwnRow, ...]:
    from rankmuster.report.incident_recovery_text import OwnRow

    return tuple(
        OwnRow(
            class_=row.class_,
            subclass=row.subclass,
            confidence=row.confidence,
            progress=row.progress,
            boundary=row.boundary,
            reason=row.reason,
        )
        for row in rows
    )


def _table(rows: tuple[RecoveryRow, ...]) -> tuple[TableRow, ...]:
    from rankmuster.incident.recovery_rows import whole_table
    from rankmuster.report.incident_recovery_text import TableRow

    return tuple(
        TableRow(
            class_=row.class_,
            subclass=row.subclass,
            table=row.table,
            boundary=row.boundary,
            own=tuple(number for number, _ in row.rows),
        )
        for row in whole_table(rows)
    )
