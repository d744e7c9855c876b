"""`rankmuster drill`: faults made on purpose, and whether each of them is told, named, saved and mended."""

from __future__ import annotations

import typer

from rankmuster.cli.drill_list import list_
from rankmuster.cli.drill_report import report
from rankmuster.cli.drill_run import run
from rankmuster.cli.drill_verify import verify

app = typer.Typer(
    name="drill",
    help="Make faults on purpose, and score the whole chain: told, named, evidence saved, service back.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("list", short_help="List the faults, what must come back, and which can be made here.")(list_)
app.command("run", short_help="Make faults and controls one after the other, and write the card.")(run)
app.command("report", short_help="Show the score card of a drill.")(report)
app.command("verify", short_help="Diagnose every bundle of a drill again, and compare.")(verify)
