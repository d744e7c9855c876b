"""`rankmuster incident list`: which incidents there are, the newest first."""

from __future__ import annotations

import time
from enum import Enum
from typing import Annotated

import typer

from rankmuster.cli.incident_place import JournalPlace, none_yet, opened
from rankmuster.cli.options import Debug, OutputFile
from rankmuster.cli.output import deliver, table_width
from rankmuster.cli.status import ExitStatus

MOST = 100_000


class Format(str, Enum):
    """How the answer is written."""

    TERMINAL = "terminal"
    JSON = "json"


Form = Annotated[Format, typer.Option("--format", help="terminal: to read; json: the schema.")]


def list_(
    instance: Annotated[str, typer.Option("--instance", metavar="NAME", help="Only those of this instance.")] = "",
    open_only: Annotated[bool, typer.Option("--open", help="Only those that are open.")] = False,
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="The newest N.")] = 20,
    journal: JournalPlace = "",
    form: Form = Format.TERMINAL,
    output: OutputFile = None,
    debug: Debug = False,  # noqa: ARG001  # see options
) -> int:
    """List incidents, the newest first, and say whether the circuit breaker is open.

    Exit status: 0 none of those listed is open, 1 one is, 3 the journal cannot be read, there is none
    where one was named, or bad usage.
    """
    file = none_yet(journal)
    if file is not None:
        from rankmuster.report.incident_json import list_json

        said = (
            f"no incident yet: there is no journal at {file}; `rankmuster incident serve` makes it. Where its settings "
            "name another one, name that with --journal\n"
        )
        deliver(list_json((), None) if form is Format.JSON else said, output)
        return ExitStatus.HEALTHY
    with opened(journal, "listing the incidents") as store:
        from rankmuster.report.incident_json import list_json
        from rankmuster.report.incident_list_text import list_text

        found = store.incidents(instance=instance or None, open_only=open_only, limit=limit + 1)
        breaker = store.breaker()
        heads = found[:limit]
        text = (
            list_json(heads, breaker)
            if form is Format.JSON
            else list_text(
                heads,
                now=time.time(),
                width=table_width(),
                place=store.name,
                breaker=breaker,
                more=len(found) > limit,
                chosen=bool(instance or open_only),
            )
        )
    deliver(text, output)
    return ExitStatus.FAULT if any(head.closed_at is None for head in heads) else ExitStatus.HEALTHY
