"""Where RAS listens: `NCCL_RAS_ADDR` and every address of the host that it names (NCCL src/ras/client_support.cc)."""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass

from rankmuster.collect.bounded import Late, within
from rankmuster.collect.deadline import Deadline

DEFAULT_HOST = "localhost"
DEFAULT_PORT = 28028
"""NCCL_RAS_CLIENT_PORT (src/ras/ras_internal.h)."""

NAME_SECONDS = 2.0
"""For a host name that has to be looked up. RAS listens on the node itself, whose names are answered from its files."""

_LOOPBACK = ("::1", "127.0.0.1")
_ANYWHERE = {"0.0.0.0": ("127.0.0.1",), "::": _LOOPBACK}  # noqa: S104 - compared, never bound
_BRACKETED = re.compile(r"\[([0-9A-Fa-f:.]+(?:%[\w.\-]+)?)\]:(\d{1,5})", re.ASCII)
_PLAIN = re.compile(r"([\w.\-]{1,255}):(\d{1,5})", re.ASCII)


class AddressUnusable(Exception):
    """The setting names no address; the text says what was read and what is expected."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`host`: a name or a numeric address without brackets."""

    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Address:
    """One address to connect to, as `socket` takes it."""

    family: int
    sockaddr: tuple[object, ...]

    def __str__(self) -> str:
        return str(Endpoint(str(self.sockaddr[0]), int(str(self.sockaddr[1]))))


def endpoint(setting: str | None) -> Endpoint:
    """`NCCL_RAS_ADDR`: `host:port`, `ip:port` or `[::1]:port`; None or empty: NCCL's default.

    Raises AddressUnusable for anything else.
    """
    text = (setting or "").strip()
    if not text:
        return Endpoint()
    match = _BRACKETED.fullmatch(text) or _PLAIN.fullmatch(text)
    port = int(match.group(2)) if match else 0
    if match is None or not 0 < port < 1 << 16:
        raise AddressUnusable(
            f"NCCL_RAS_ADDR={text[:80]!r} names no address (NCCL takes host:port, ip:port and [ip]:port), so "
            "there is nowhere to ask"
        )
    return Endpoint(match.group(1), port)


def addresses(where: Endpoint, deadline: Deadline) -> tuple[Address, ...]:
    """Every address of the endpoint, each once, in the order in which the server would have chosen its one.

    A server listens on the first address of the name alone, as *its* resolver gave it: for `localhost` both loopback
    addresses are tried whatever the resolver here says. Empty when the name is unknown, or not resolved in time.
    """
    hosts = _ANYWHERE.get(where.host, (where.host,))
    found: list[Address] = []
    for host in hosts:
        found += _resolved(host, where.port, deadline)
    if where.host.lower() == DEFAULT_HOST:
        for host in _LOOPBACK:
            found += _numeric(host, where.port)
    return tuple(dict.fromkeys(found))


def _numeric(host: str, port: int) -> list[Address]:
    try:
        listed = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        return []
    return [Address(family, sockaddr) for family, _, _, _, sockaddr in listed]


def _resolved(host: str, port: int, deadline: Deadline) -> list[Address]:
    """A look-up may hang in DNS, and cannot be interrupted: it gets a thread that can be left behind."""
    numeric = _numeric(host, port)
    if numeric:
        return numeric

    def look_up() -> list[Address]:
        listed = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return [Address(family, sockaddr) for family, _, _, _, sockaddr in listed]

    try:
        return within(deadline.within(NAME_SECONDS).remaining(), look_up, "ras-resolve")
    except (OSError, UnicodeError, Late):
        return []
