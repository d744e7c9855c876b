"""What HAProxy's runtime socket says, as values. Pure.

Formats: management guide, sections 9.1 (`show stat`, CSV) and 9.3 (`show servers state`, version 1); the flags are
SRV_ADMF_* of include/haproxy/server-t.h. Checked against Debian's 2.6.12.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass

from rankmuster.report.inert import plain

MAINT = 0x01 | 0x02 | 0x20 | 0x40
"""In maintenance: forced, by the server that it tracks, since its name does not resolve. 0x04 (disabled in the
configuration) only says where 0x01 came from."""

OWN_MAINT = 0x01

DRAIN = 0x08 | 0x10
"""In drain: forced, by the server that it tracks."""

STATE_VERSION = "1"

SHOWN = 160
"""Characters of an answer that are quoted."""


class NotUnderstood(Exception):
    """It is no answer of the kind that was asked for; the message quotes its beginning."""


@dataclass(frozen=True, slots=True)
class ServerState:
    """Of one server. `op`: 0 down, 1 starting, 2 up, 3 stopping. `weight`: as it is used, `initial`: as configured."""

    admin: int
    op: int
    weight: int
    initial: int

    @property
    def maint(self) -> bool:
        """Nothing new gets there, and no health check."""
        return bool(self.admin & MAINT)

    @property
    def drain(self) -> bool:
        """Nothing new gets there but what is bound to it by a cookie or a stick table."""
        return bool(self.admin & DRAIN)

    @property
    def up(self) -> bool:
        """Whether it gets requests, as far as health checks go."""
        return self.op != 0


@dataclass(frozen=True, slots=True)
class ServerStat:
    """`running`, `queued`: requests now. `status`: in HAProxy's words. `cookie`: whether requests are bound to it."""

    running: int
    queued: int
    status: str
    cookie: bool


class NoServer(Exception):
    """HAProxy answered well and does not know the backend, or the server; the message is its own."""


def complaint(answer: str) -> str | None:
    """What a command that changes something was answered, or None where it was carried out: then nothing is said."""
    said = answer.strip()
    return plain(said.splitlines()[0], SHOWN) if said else None


def read_state(answer: str, backend: str, server: str) -> ServerState:
    """From `show servers state BACKEND`. Raises NoServer, NotUnderstood."""
    lines = answer.strip().splitlines()
    if not lines or lines[0].strip() != STATE_VERSION:
        _refuse(answer)
    names: list[str] = []
    for line in lines[1:]:
        if line.startswith("#"):
            names = line.lstrip("# ").split()
            continue
        row = dict(zip(names, line.split(), strict=False))
        if row.get("be_name") == backend and row.get("srv_name") == server:
            try:
                return ServerState(
                    int(row["srv_admin_state"]),
                    int(row["srv_op_state"]),
                    int(row["srv_uweight"]),
                    int(row["srv_iweight"]),
                )
            except (KeyError, ValueError):
                _refuse(answer)
    if "srv_admin_state" not in names:
        _refuse(answer)
    raise NoServer(f"No such server in backend {backend}")


def read_stat(answer: str, backend: str, server: str) -> ServerStat:
    """From `show stat BACKEND 4 -1`. Raises NoServer, NotUnderstood."""
    if not answer.lstrip().startswith("# pxname,"):
        _refuse(answer)
    try:
        for row in csv.DictReader(answer.lstrip().removeprefix("# ").splitlines()):
            if row.get("pxname") == backend and row.get("svname") == server:
                cookie = bool(row.get("cookie"))
                return ServerStat(int(row["scur"]), int(row["qcur"] or 0), plain(row["status"], 40), cookie)
    except (KeyError, ValueError, TypeError, csv.Error):
        _refuse(answer)
    raise NoServer(f"No such server in backend {backend}")


def _refuse(answer: str) -> None:
    said = complaint(answer)
    if said is not None and said.rstrip(".") in ("Can't find backend", "No such backend", "No such server"):
        raise NoServer(said.rstrip("."))
    raise NotUnderstood(f'it answered "{said}"' if said is not None else "it answered nothing")
