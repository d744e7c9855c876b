"""`rankmuster bench`: measure communication, read what other tools measured, and the profiles of what is measured."""

from __future__ import annotations

import typer

from rankmuster.cli.bench_nodes import nodes
from rankmuster.cli.bench_pairs import pairs
from rankmuster.cli.bench_profile import compute, show
from rankmuster.cli.bench_read import read
from rankmuster.cli.bench_run import run

app = typer.Typer(
    name="bench",
    help="Measure communication, with nccl-tests or with torch alone, and read what was measured.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("run", short_help="Measure a profile on this node.")(run)
app.command("read", short_help="Read what nccl-tests printed or wrote.")(read)
app.command("profiles", short_help="List the profiles, or show one as YAML.")(show)
app.command("profile", short_help="Compute a profile from what an instance did.")(compute)
app.command("pairs", short_help="Find a slow node or rail by measuring pairs of nodes.")(pairs)
app.command("nodes", short_help="Measure a profile over several nodes at once.")(nodes)
