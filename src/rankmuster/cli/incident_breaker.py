"""`rankmuster incident breaker`: the circuit breaker that stops rebuilds and fences of a whole fleet."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from rankmuster.cli.incident_list import Form, Format
from rankmuster.cli.incident_named import OperatorName, Reason, operator, reason_of
from rankmuster.cli.incident_place import JournalPlace, none_yet, opened
from rankmuster.cli.options import Debug
from rankmuster.cli.output import say, write_stdout
from rankmuster.cli.status import CommandError, ExitStatus


class BreakerWish(str, Enum):
    """What is to be done with it."""

    SHOW = "show"
    OPEN = "open"
    CLOSE = "close"


def breaker(
    wish: Annotated[
        BreakerWish, typer.Argument(metavar="[show|open|close]", help="What to do with it; show by default.")
    ] = BreakerWish.SHOW,
    by: OperatorName = "",
    reason: Reason = "",
    journal: JournalPlace = "",
    form: Form = Format.TERMINAL,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """Show, open or close the circuit breaker. While it is open nothing is rebuilt and nobody fenced unasked.

    It opens by itself where many instances ask for a rebuild at once. `open` wants a --reason.

    Exit status: 0 it is closed now, 1 it is open now, 3 the journal cannot be read or written, or bad usage.
    """
    if wish is BreakerWish.OPEN and not reason.strip():
        raise CommandError("opening the breaker stops all rebuilds of the fleet: say why with --reason")
    if wish is not BreakerWish.OPEN and none_yet(journal) is not None:
        from rankmuster.report.incident_json import breaker_json
        from rankmuster.report.incident_list_text import breaker_text

        write_stdout(breaker_json(None) if form is Format.JSON else breaker_text(None, time.time()))
        return ExitStatus.HEALTHY
    who = operator(by)
    with opened(journal, "at the circuit breaker", create=wish is BreakerWish.OPEN) as store:
        from rankmuster.report.incident_json import breaker_json
        from rankmuster.report.incident_list_text import breaker_text

        now = time.time()
        if wish is BreakerWish.OPEN:
            there = store.breaker()
            if there is not None and there.closed_at is None:
                say("the circuit breaker was open already: its reason stays as it is")
            store.open_breaker(f"{reason_of(reason)} (opened by {who})", now)
        elif wish is BreakerWish.CLOSE and not store.close_breaker(who, now):
            say("the circuit breaker was closed already")
        found = store.breaker()
    write_stdout(breaker_json(found) if form is Format.JSON else breaker_text(found, now))
    return ExitStatus.FAULT if found is not None and found.closed_at is None else ExitStatus.HEALTHY
