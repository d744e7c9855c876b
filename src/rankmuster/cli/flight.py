"""`rankmuster flight`: what Flight Recorder dumps say; a group of commands of which `show` needs no name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from rankmuster.cli.flight_merge import merge
from rankmuster.cli.flight_show import show
from rankmuster.cli.flight_summarize import summarize

if TYPE_CHECKING:
    Arguments = list[str]

DEFAULT = "show"


class WithDefault(TyperGroup):
    """`flight FOLDER ...` is `flight show FOLDER ...`. A folder that is called like a command is given as ./merge."""

    def parse_args(self, ctx: Any, args: Arguments) -> Arguments:
        """Puts the default command before anything that is none and does not ask for help."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [DEFAULT, *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="flight",
    cls=WithDefault,
    help="Show what Flight Recorder dumps say, group by group: `rankmuster flight FOLDER` is `flight show FOLDER`, and "
    "`rankmuster flight show --help` has its options.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.command(DEFAULT, short_help="Who is where in each group, and where members part; the default.")(show)

app.command("summarize", short_help="One node's dumps, without stacks, into one small file.")(summarize)
app.command("merge", short_help="Many nodes' summaries into one verdict.")(merge)
