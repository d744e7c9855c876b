"""`rankmuster history`: what was measured over time, of every class of nodes, and what counts as its baseline."""

from __future__ import annotations

import typer

from rankmuster.cli.history_add import add
from rankmuster.cli.history_changes import changes_app
from rankmuster.cli.history_move import export, forget, import_, upgrade
from rankmuster.cli.history_show import runs, show
from rankmuster.cli.history_verify import verify

app = typer.Typer(
    name="history",
    help="Results over time by class of node and profile: show, add, import, export, and decide about steps in level.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("show", short_help="Show the classes, or the baseline of one.")(show)
app.command("runs", short_help="List runs, in every state.")(runs)
app.add_typer(changes_app, name="changes", short_help="List steps in a class's level, and decide about them.")
app.command("add", short_help="Store results of a benchmark with its node's fingerprint.")(add)
app.command("import", short_help="Take in parquet that `export` wrote.")(import_)
app.command("export", short_help="Write everything as parquet.")(export)
app.command("upgrade", short_help="Bring the tables up to date.")(upgrade)
app.command("verify", short_help="Check that every run is as it was stored.")(verify)
app.command("forget", short_help="Remove old runs.")(forget)
