"""`rankmuster gate`: may this release take traffic, which one may, and the way back to the last good one."""

from __future__ import annotations

import typer

from rankmuster.cli.gate_approve import approve
from rankmuster.cli.gate_canary import canary
from rankmuster.cli.gate_check import check
from rankmuster.cli.gate_rollback import rollback
from rankmuster.cli.gate_status import status

app = typer.Typer(
    name="gate",
    help="The launch checklist of a release, the records of what was approved, and the way back.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("check", short_help="Go through the checklist, for people and CI systems.")(check)
app.command("approve", short_help="Go through it, and record that the release may take traffic.")(approve)
app.command("canary", short_help="Watch its first minutes: keep it, or roll it back.")(canary)
app.command("status", short_help="Which release is approved, and whether this is it.")(status)
app.command("rollback", short_help="Print the last good release as what puts it back.")(rollback)
