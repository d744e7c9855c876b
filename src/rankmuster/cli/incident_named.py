"""What a person names: an incident by its id or the beginning of it, or an instance: its open or newest one."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankmuster.cli.output import say
from rankmuster.cli.status import CommandError, doing

if TYPE_CHECKING:
    from rankmuster.incident.config import IncidentConfig
    from rankmuster.model.incident import IncidentHead
    from rankmuster.model.verdict import Verdict
    from rankmuster.report.incident_account import Account
    from rankmuster.store.journal import Journal

MOST_NAME = 100
MOST_REASON = 1_000
"""Characters of what an operator says."""

MOST_VERDICT = 64 << 20
"""Bytes of a verdict's file: one of thousands of ranks takes some MiB."""

IncidentName = Annotated[
    str,
    typer.Argument(
        metavar="ID", help="An incident, by its id or the beginning of it; or an instance: its open or newest one."
    ),
]

SettingsFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The settings of incidents (YAML); default: what is built in."),
]

OperatorName = Annotated[str, typer.Option("--by", metavar="NAME", help="Who says so; default: the user and the host.")]

Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why; kept in the journal.")]


def chosen(journal: Journal, given: str) -> IncidentHead:
    """The incident that is meant. Raises CommandError for none or several."""
    heads = journal.incidents()
    exact = [head for head in heads if head.id == given]
    named = [head for head in heads if head.instance == given]
    begins = [head for head in heads if given and head.id.startswith(given)]
    found = exact or [*(head for head in named if head.closed_at is None), *named][:1] or begins
    if len(found) == 1:
        return found[0]
    if found:
        some = ", ".join(head.id for head in found[:5])
        raise CommandError(f"{given!r} is not one incident but {len(found)}: {some}; say more of the id")
    what = f"{len(heads)} others; `rankmuster incident list` has them" if heads else "none at all"
    raise CommandError(f"{journal.name} has no incident or instance {given[:100]!r}, and {what}")


def account_of(journal: Journal, head: IncidentHead) -> Account:
    """All of it, with the verdict from its file where the journal itself holds none and the file is still there."""
    from rankmuster.report.incident_account import account
    from rankmuster.report.incident_impact import verdict_file

    try:
        events = journal.events(head.id)
    except KeyError:
        raise CommandError(f"{journal.name} has no incident {head.id} any more: it was removed meanwhile") from None
    found = account(head.id, events)
    path = verdict_file(found) if found.verdict is None else None
    return account(head.id, events, _verdict_in(Path(path))) if path else found


def _verdict_in(path: Path) -> Verdict | None:
    """None where it cannot be read: the rest of the incident can be told without it."""
    import json

    from rankmuster.evidence.given_file import CannotRead, bytes_in
    from rankmuster.model.plain_json import NotPlain
    from rankmuster.model.verdict_json import verdict_from_plain

    with contextlib.suppress(CannotRead, OSError, ValueError, RecursionError, NotPlain):
        return verdict_from_plain(json.loads(bytes_in(path, MOST_VERDICT, "verdict")))
    return None


def settings_of(path: Path | None) -> IncidentConfig:
    """The settings in a file, or what is built in. Raises CommandError."""
    from rankmuster.incident.config import IncidentConfig

    if path is None:
        return IncidentConfig()
    with doing(f"reading {path}"):
        from rankmuster.cli.given import bytes_of
        from rankmuster.incident.config_read import MAX_BYTES, ConfigRefused, read

        data = bytes_of(path, 4 * MAX_BYTES, "configuration")
        try:
            return read(data.decode("utf-8"), str(path))
        except UnicodeDecodeError as error:
            raise CommandError(f"{path} is no text in UTF-8 (byte {error.start}); write the settings anew") from error
        except ConfigRefused as error:
            raise CommandError(f"{error}; nothing was done") from error


def operator(given: str) -> str:
    """Who an operator is: what was given, or the user at the host."""
    from rankmuster.report.inert import plain

    if given.strip():
        return plain(given, MOST_NAME)
    import getpass
    import socket

    try:
        user = getpass.getuser()
    except (OSError, KeyError, ImportError):  # a container's user has no name
        user = "somebody"
    return plain(f"{user}@{socket.gethostname()}", MOST_NAME)


def reason_of(given: str) -> str:
    """An operator's words as they are kept: on one line, within a size."""
    from rankmuster.report.inert import plain

    return plain(given, MOST_REASON)


def told(text: str) -> None:
    """One line to standard error, in which the name of an instance may be anything."""
    from rankmuster.report.inert import plain

    say(plain(text))
