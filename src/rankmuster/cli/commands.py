"""Every command by its name, and how it comes into the command line: only the one that is asked for is imported.

Importing all of them takes twice as long as most of them need for their work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module

import typer


@dataclass(frozen=True, slots=True)
class Command:
    """`place`: module and attribute; a group of commands is a `typer.Typer`, a single one a function."""

    name: str
    place: str
    short_help: str

    def add_to(self, app: typer.Typer) -> None:
        """Imports it and adds it."""
        module, _, attribute = self.place.partition(":")
        found = getattr(import_module(f"rankmuster.cli.{module}"), attribute)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=self.name, short_help=self.short_help)
        else:
            app.command(self.name, short_help=self.short_help)(found)


COMMANDS = (
    Command("collect", "collect:collect", "Save the evidence of a live instance in seconds."),
    Command("bundle", "bundle:app", "Verify a bundle, or merge those of several nodes."),
    Command("watch", "watch:watch", "Say when an instance stops, slows down, or goes on."),
    Command("top", "top:top", "Watch what the watch of this node sees, in a terminal."),
    Command("env", "env:env_app", "The variables that leave evidence: print them, check them."),
    Command("calibrate", "calibrate:calibrate", "Buffer sizes, time-outs and log volume from recorded load."),
    Command("run", "run:run", "Run a host's process group as one, ended and started whole."),
    Command("incident", "incident:app", "Run the runbook of a fault, and look at what it did."),
    Command("kube", "kube:app", "Agents, controller and admission for a Kubernetes cluster."),
    Command("diagnose", "diagnose:diagnose", "Say what is wrong, who is the culprit, what to rebuild."),
    Command("flight", "flight:app", "Show what Flight Recorder dumps say, group by group."),
    Command("fingerprint", "fingerprint:fingerprint_app", "What a node's path is made of; compare two of them."),
    Command("bench", "bench:app", "Measure communication, and read what was measured."),
    Command("history", "history:app", "Results over time, per kind of node."),
    Command("admit", "admit:app", "Decide whether this node may join the pool."),
    Command("gate", "gate:app", "Let a release take traffic only with proof; the way back."),
    Command("drift", "drift:drift", "Say what changed about a node or a fleet since its baseline."),
    Command("drill", "drill:app", "Make faults on purpose, and score the whole chain."),
    Command("explain", "explain:explain", "Explain a word of a verdict, and what to do about it."),
)


def add_commands(app: typer.Typer, arguments: Sequence[str]) -> None:
    """Adds the command that the arguments begin with; all of them where they begin with none (help, a mistake).

    What `app` has already stays as it is.
    """
    present = {one.name for one in app.registered_commands} | {one.name for one in app.registered_groups}
    asked = arguments[0] if arguments else None
    if asked in present or asked == "--version":
        return
    wanted = [one for one in COMMANDS if one.name == asked] or list(COMMANDS)
    for command in wanted:
        if command.name not in present:
            command.add_to(app)
