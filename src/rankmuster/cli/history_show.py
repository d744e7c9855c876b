"""`rankmuster history show` and `history runs`: what there is, and what the baseline of a class says."""

from __future__ import annotations

import time
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankmuster.cli.history_named import class_named, is_named, moment, profile_named
from rankmuster.cli.history_place import HistoryPlace, opened
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, table_width
from rankmuster.cli.status import CommandError, ExitStatus
from rankmuster.model.benchmark import RunState

if TYPE_CHECKING:
    from rankmuster.store.history import History


MOST_RUNS = 1_000_000
"""Of one list; a whole history is exported."""


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


Form = Annotated[Format, typer.Option("--format", help="terminal: tables; json: the schema.")]
ClassHash = Annotated[str, typer.Option("--class", metavar="HASH", help="A class, by the first digits of its hash.")]
ProfileName = Annotated[
    str,
    typer.Option("--profile", metavar="NAME", help="A profile, by its name or key, with /TOOL, /TOOL/GPUS or without."),
]


def show(
    class_: ClassHash = "",
    profile: ProfileName = "",
    history: HistoryPlace = "",
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List the classes and profiles with their runs; of one class, show its baseline: quantiles per operation and size.

    Exit status: 0 shown, 3 there is no such history, class or profile, or bad usage.
    """
    with opened(history, "showing the history") as store:
        from rankmuster.report import history_text
        from rankmuster.report.history_figures import figures
        from rankmuster.report.history_json import as_json

        classes = [one for one in store.classes() if not profile or is_named(one.profile, profile)]
        if not class_:
            if profile and not classes:
                raise CommandError(f"{store.name} has no runs of the profile {profile!r}")
            text = (
                as_json(classes=classes)
                if form is Format.JSON
                else history_text.classes_text(classes, store.name, table_width())
            )
        else:
            wanted = class_named((one.class_hash for one in classes), class_)
            parts = []
            for count in (one for one in classes if one.class_hash == wanted):
                found = store.class_history(wanted, count.profile)
                parts.append((count, found, figures(found)))
            if form is Format.JSON:
                text = as_json(classes=[_document(*part) for part in parts])
            else:
                text = "\n".join(history_text.class_text(*part, table_width()) for part in parts)
    deliver(text, output)
    return ExitStatus.HEALTHY


def _document(count: Any, found: Any, figures: Any) -> dict[str, Any]:
    from dataclasses import asdict

    from rankmuster.report.history_json import figures_json

    return {
        **asdict(count),
        "baseline_runs": len(found.records),
        "baseline_total": found.total,
        "baseline_nodes": len(set(found.nodes)),
        "kept_out": dict(found.kept_out),
        "changes": [asdict(point) for point in found.change_points],
        "cells": figures_json(figures),
    }


def runs(
    class_: ClassHash = "",
    profile: ProfileName = "",
    node: Annotated[str, typer.Option("--node", metavar="NAME", help="A node, by its host's name or hash.")] = "",
    state: Annotated[RunState | None, typer.Option("--state", help="How the run ended.")] = None,
    since: Annotated[str, typer.Option("--since", metavar="TIME", help="Started then or later: 30d, a date.")] = "",
    until: Annotated[str, typer.Option("--until", metavar="TIME", help="Started before that.")] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST_RUNS, help="The newest N.")] = 50,
    history: HistoryPlace = "",
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List runs, newest first, in every state; as JSON with all their results.

    Exit status: 0 listed, 3 there is no such history, class or profile, or bad usage.
    """
    now = time.time()
    with opened(history, "listing the runs") as store:
        from rankmuster.report.history_json import as_json
        from rankmuster.report.history_text import runs_text

        wanted = chosen(store, class_, profile)
        found = store.runs(
            class_hash=wanted["class_hash"],
            profile=wanted["profile"],
            node=node or None,
            state=state,
            since=moment(since, "--since", now) if since else None,
            until=moment(until, "--until", now) if until else None,
            limit=limit,
        )
        text = as_json(runs=found) if form is Format.JSON else runs_text(found, table_width())
    deliver(text, output)
    return ExitStatus.HEALTHY


def chosen(store: History, class_: str, profile: str) -> dict[str, str | None]:
    """The class and profile that were named, as the store takes them. Raises CommandError."""
    classes = store.classes() if class_ or profile else ()
    return {
        "class_hash": class_named((one.class_hash for one in classes), class_) if class_ else None,
        "profile": profile_named((one.profile for one in classes), profile) if profile else None,
    }
