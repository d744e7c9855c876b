"""Where a history or journal is: a file or a server, as given by a person, named without passwords."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from rankmuster.store.errors import Unreachable
from rankmuster.store.kind import HISTORY, Kind

_SQLITE = "sqlite:///"
_POSTGRES = ("postgresql+psycopg", "postgresql", "postgres")
# user:password@host, and what libpq takes after a question mark (password, sslpassword, passfile)
_SECRETS = (
    (re.compile(r"(?<=//)([^/@:]*):([^/]*)@(?=[^@]*$)"), r"\1:***@"),
    (re.compile(r"([?&][^=&]*pass[^=&]*=)[^&]*", re.IGNORECASE), r"\1***"),
)


@dataclass(frozen=True, slots=True)
class Place:
    """`file`: of an SQLite database; `url`: of a PostgreSQL one, for the driver psycopg; one of the two.

    `name`: for messages, without a password; `secrets`: what must stand in no message; `kind`: what it is there for.
    """

    file: Path | None
    url: str | None
    name: str
    secrets: tuple[str, ...] = ()
    kind: Kind = HISTORY

    @property
    def called(self) -> str:
        """For messages: "the history FILE"."""
        return f"the {self.kind.word} {self.name}"


def default_place(environ: Mapping[str, str], kind: Kind = HISTORY) -> str:
    """`RANKMUSTER_HISTORY`, or `history.db` in the state folder of the user; of a journal `RANKMUSTER_JOURNAL`,
    `incidents.db`: a database of its own, so that long imports into the history never hold it up.

    `$XDG_STATE_HOME/rankmuster`, by default `~/.local/state/rankmuster` (XDG Base Directory Specification 0.8, which
    has relative values ignored).
    """
    if environ.get(kind.variable):
        return environ[kind.variable]
    state = environ.get("XDG_STATE_HOME", "")
    base = Path(state) if state.startswith("/") else Path(environ.get("HOME") or "/") / ".local" / "state"
    return str(base / "rankmuster" / kind.file_name)


def place_of(given: str, kind: Kind = HISTORY) -> Place:
    """A path, `sqlite:///path`, or `postgresql://…`. Raises Unreachable for anything else."""
    name = without_passwords(given)
    if not given.strip():
        raise Unreachable(f"no {kind.word} is named: give a file, or a URL like postgresql://user@host/database")
    scheme, separator, rest = given.partition("://")
    if not separator:
        return Place(Path(given).expanduser(), None, given, kind=kind)
    if scheme in _POSTGRES:
        return Place(None, f"{_POSTGRES[0]}://{rest}", name, _secrets(given), kind)
    if given.startswith(_SQLITE) and len(given) > len(_SQLITE) and given != f"{_SQLITE}:memory:":
        return Place(Path(unquote(given[len(_SQLITE) :])).expanduser(), None, name, kind=kind)
    raise Unreachable(
        f"a {kind.word} cannot be opened at {name}: it is a file (a path or sqlite:///path) or a PostgreSQL database "
        "(postgresql://user@host/database)"
    )


def without_passwords(text: str) -> str:
    """A URL as it may be shown."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def _secrets(url: str) -> tuple[str, ...]:
    found: list[str] = re.findall(r"[?&][^=&]*pass[^=&]*=([^&]*)", url, re.IGNORECASE)
    with suppress(ValueError):  # a URL that is none; its error says so
        found.append(urlsplit(url).password or "")
    return tuple({text for one in found for text in (one, unquote(one)) if text})
