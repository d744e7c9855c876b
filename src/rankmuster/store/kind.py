"""What a database of this package is to whoever opens it: its name in messages, where it is by default, what helps."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Kind:
    """`word`: what messages call it. `variable`: of the environment, that names one; `file_name`: in the state folder.

    `made_by`, `upgraded_by`: the commands that make it and bring it up to date; `restore`: from what. `busy_seconds`:
    how long one waits for another's transaction; `connect_seconds`: for a PostgreSQL server, which an URL's own
    `connect_timeout` overrides. `answer_seconds`: for a whole transaction on such a server, None without end.
    """

    word: str
    variable: str
    file_name: str
    made_by: str
    upgraded_by: str
    restore: str
    busy_seconds: float
    connect_seconds: int
    answer_seconds: float | None = None


HISTORY = Kind(
    word="history",
    variable="RANKMUSTER_HISTORY",
    file_name="history.db",
    made_by="`rankmuster history add` makes it",
    upgraded_by="`rankmuster history upgrade`",
    restore="a copy or an export",
    # A run is stored in milliseconds, a million results in a minute; a fleet that writes more than one file bears
    # belongs on PostgreSQL
    busy_seconds=30.0,
    connect_seconds=10,
)

JOURNAL = Kind(
    word="journal",
    variable="RANKMUSTER_JOURNAL",
    file_name="incidents.db",
    made_by="`rankmuster incident serve` makes it",
    upgraded_by="`rankmuster history upgrade --history` with its place",
    restore="a copy",
    # A transaction here is a few rows; a step of the runbook has 3 to 30 s (`incident.budget`) and tries again
    busy_seconds=5.0,
    connect_seconds=5,
    answer_seconds=10.0,
)
