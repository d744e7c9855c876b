"""`rankmuster history changes`: steps in the level of a class, and what a person decides about them."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from rankmuster.cli.history_named import moment
from rankmuster.cli.history_place import HistoryPlace, opened
from rankmuster.cli.history_show import ClassHash, Form, Format, ProfileName, chosen
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, say, table_width
from rankmuster.cli.status import ExitStatus
from rankmuster.model.history import ChangeState
from rankmuster.report.history_words import when

changes_app = typer.Typer(
    name="changes",
    help="Steps in the level of a class: list them, and decide which level is the baseline.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

Number = Annotated[int, typer.Argument(metavar="ID", min=1, help="The change point, as `changes list` numbers it.")]
Note = Annotated[str, typer.Option("--note", metavar="TEXT", help="Why; kept with it.")]


@changes_app.command("list", short_help="List change points.")
def list_changes(
    class_: ClassHash = "",
    profile: ProfileName = "",
    state: Annotated[ChangeState | None, typer.Option("--state", help="Only those in this state.")] = None,
    history: HistoryPlace = "",
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List change points, oldest first. While one is open, the baseline is what was before it.

    Exit status: 0 none is open, 1 one is (whatever --state shows), 3 there is no such history, class or profile, or bad
    usage.
    """
    with opened(history, "listing the change points") as store:
        from rankmuster.report.history_json import as_json
        from rankmuster.report.history_text import changes_text

        wanted = chosen(store, class_, profile)
        found = store.changes(class_hash=wanted["class_hash"], profile=wanted["profile"])
        shown = [point for point in found if state is None or point.state is state]
        text = as_json(changes=shown) if form is Format.JSON else changes_text(shown, table_width())
    deliver(text, output)
    return ExitStatus.FAULT if any(point.state is ChangeState.OPEN for point in found) else ExitStatus.HEALTHY


@changes_app.command("accept", short_help="Make the new level the baseline.")
def accept(
    number: Number,
    note: Note = "",
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Make the level after a change point the baseline: runs before it are compared with no more.

    Exit status: 0 decided, 3 there is no such change point or history, or bad usage.
    """
    return _decide(history, number, ChangeState.ACCEPTED, note, None)


@changes_app.command("dismiss", short_help="Keep the level before it as the baseline.")
def dismiss(
    number: Number,
    until: Annotated[
        str,
        typer.Option("--until", metavar="TIME", help="When it was over: runs from then on are in the baseline again."),
    ] = "",
    note: Note = "",
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Keep the level before a change point as the baseline: the runs after it are left out, for ever or --until.

    Exit status: 0 decided, 3 there is no such change point or history, or bad usage.
    """
    end = moment(until, "--until", time.time()) if until else None
    return _decide(history, number, ChangeState.DISMISSED, note, end)


@changes_app.command("reopen", short_help="Take a decision back.")
def reopen(
    number: Number,
    note: Note = "",
    history: HistoryPlace = "",
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Take a decision back: the change point is open again, and the baseline what was before it.

    Exit status: 0 done, 3 there is no such change point or history, or bad usage.
    """
    return _decide(history, number, ChangeState.OPEN, note, None)


def _decide(history: str, number: int, state: ChangeState, note: str, until: float | None) -> int:
    with opened(history, f"deciding about change point {number}") as store:
        point = store.set_change_state(number, state, note=note, until=until)
        found = store.class_history(point.class_hash, point.profile)
    of = "all sizes" if point.cell is None else f"{point.cell.operation.value} with {point.cell.size_bytes} bytes"
    end = f" until {when(point.until)}" if point.until is not None else ""
    say(
        f"change point {number} of {when(point.at)} ({of}, {point.profile}) is {point.state.value}{end}; "
        f"the baseline of its class has {found.total} complete runs now"
    )
    return ExitStatus.HEALTHY
