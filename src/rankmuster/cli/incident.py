"""`rankmuster incident`: the runbook, its journal, and the operator's hand on both."""

from __future__ import annotations

import typer

from rankmuster.cli.incident_abort import abort
from rankmuster.cli.incident_approve import approve
from rankmuster.cli.incident_breaker import breaker
from rankmuster.cli.incident_forget import forget
from rankmuster.cli.incident_list import list_
from rankmuster.cli.incident_recovery import recovery
from rankmuster.cli.incident_replay import replay
from rankmuster.cli.incident_report import report
from rankmuster.cli.incident_resume import resume
from rankmuster.cli.incident_run import run
from rankmuster.cli.incident_serve import serve
from rankmuster.cli.incident_show import show

app = typer.Typer(
    name="incident",
    help="Run the runbook of a fault: save the evidence, rebuild the whole group, keep bad nodes out. And look at it.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
# what acts
app.command("run", short_help="Run the runbook for one instance now.")(run)
app.command("serve", short_help="Follow the watch, and run the runbook of what stops.")(serve)
# what an operator asks and says
app.command("list", short_help="List incidents, the newest first.")(list_)
app.command("show", short_help="Show one: what is to do, then the timeline.")(show)
app.command("approve", short_help="Let a rebuild be done that waits for you.")(approve)
app.command("abort", short_help="Begin nothing new: the instance is yours.")(abort)
app.command("resume", short_help="Go on with one, or open it again.")(resume)
app.command("replay", short_help="Decide again from the saved evidence, and compare.")(replay)
app.command("report", short_help="Write the post-mortem.")(report)
app.command("recovery", short_help="Show what is rebuilt for which fault.")(recovery)
app.command("breaker", short_help="Show, open or close the circuit breaker.")(breaker)
app.command("forget", short_help="Remove old incidents from the journal.")(forget)
