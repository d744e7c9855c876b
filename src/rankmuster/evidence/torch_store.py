"""Errors of torch's rendezvous and key-value store: who could not be reached, who never joined, which store went away.

Lost connections repeat once a second for hours and follow the exit of the store's host: each is told once per writer
and address. Texts: torch 1.13 to 2.13.
"""

from __future__ import annotations

import re

from rankmuster.evidence.blob import Blob, Reader, ReaderKind, Reading
from rankmuster.evidence.log_lines import Origins, holds, marked
from rankmuster.evidence.log_prefix import whole
from rankmuster.model.frameworklog import StoreError, StoreErrorKind
from rankmuster.model.plane import Plane

MAX_TEXT = 600
"""Characters kept of an error's text."""

_MARKS = (
    "clients joined",
    "The client socket has",
    "failed to listen on any local network address",
    "connectFullMesh failed",
    "Unable to find address for: ",
    "failed to connect/validate to host",
    "RendezvousTimeoutError",
    "RendezvousConnectionError",
    "store based barrier",
    "wait timeout after",
    "Socket Timeout",
    "failed on SocketImpl",
    '"should dump" flag',
    "via c10d key-value store",
    "TCPStore",
)
_CLIENTS = re.compile(r"waiting for clients\. (\d+)/(\d+) clients joined")
_BARRIER = re.compile(r"imed out initializing process group in store based barrier")
_WORLD = re.compile(r"world_size=(\d+)")
_JOINED = re.compile(r"(?:num_workers_joined|worker_count)=(\d+)")
_PAIR = re.compile(
    r"trying to connect to \(([^()]{1,200}), (\d{1,5})\)|network address of \(([^()]{1,200}), (\d{1,5})\)"
)
_HOST_PORT = re.compile(r"to host ([^\s()]{1,200}:\d{1,5})|to (\[[^\]\s]{1,200}\]:\d{1,5})|remote=(\S{1,200}:\d{1,5})")
_LOST = re.compile(
    r"Broken pipe|Connection reset by peer|got 0 bytes|Connection was likely closed|Connection (?:was )?closed|"
    r"Connection refused|server has shut down too early"
)
_LISTEN = "failed to listen on any local network address"
_REMOTE = re.compile(r"remote=(\[[^\]\s]{1,80}\]:\d{1,5}|[^\s,)]{1,80}:\d{1,5})")
_OWN_PORT = re.compile(r"bind to (\S{1,200}:\d{1,5}) \(|\bport: (\d{1,5})\b")
_TRY_AGAIN = re.compile(r"The client socket has failed to connect to \[")


def _address(line: str) -> str | None:
    if _LISTEN in line:
        own = _OWN_PORT.search(line)
        return next((g for g in own.groups() if g), None) if own else None
    if "connectFullMesh" in line:
        remote = _REMOTE.search(line)
        return remote.group(1) if remote else None
    pair = _PAIR.search(line)
    if pair:
        host, port = (g for g in pair.groups() if g is not None)
        return f"{host}:{port}"
    single = _HOST_PORT.search(line)
    return next((g.rstrip("),") for g in single.groups() if g), None) if single else None


def _kind(line: str, level: str | None) -> tuple[StoreErrorKind, int | None, int | None] | None:
    clients = _CLIENTS.search(line)
    if clients:
        return StoreErrorKind.MISSING_MEMBERS, whole(clients.group(1)), whole(clients.group(2))
    if _BARRIER.search(line):
        joined, world = _JOINED.search(line), _WORLD.search(line)
        return (
            StoreErrorKind.MISSING_MEMBERS,
            whole(joined.group(1)) if joined else None,
            whole(world.group(1)) if world else None,
        )
    kind = None
    if _LISTEN in line:
        kind = StoreErrorKind.PORT_IN_USE if "in use" in line or "EADDRINUSE" in line or "errno: 98" in line else None
    elif "connectFullMesh failed" in line:
        kind = StoreErrorKind.GLOO_MESH
    elif "gloo" in line and "Unable to find address for: " in line:  # gloo/transport/tcp/device.cc
        kind = StoreErrorKind.GLOO_INTERFACE
    elif "RendezvousTimeoutError" in line:
        kind = StoreErrorKind.RENDEZVOUS_TIMEOUT
    elif "RendezvousConnectionError" in line or "failed to connect/validate to host" in line:
        kind = StoreErrorKind.CONNECT_FAILED
    elif "The client socket has" in line:
        # A refused first try is ordinary: workers start before the store; only the final word counts.
        if not _TRY_AGAIN.search(line) or level in ("E", "F"):
            kind = StoreErrorKind.CONNECT_FAILED
    elif "wait timeout after" in line or "Socket Timeout" in line:
        kind = StoreErrorKind.STORE_TIMEOUT if "key" in line or "tore" in line or "Socket Timeout" in line else None
    elif _LOST.search(line) and level not in ("I", "D"):
        kind = StoreErrorKind.STORE_LOST
    return (kind, None, None) if kind is not None else None


def read(blob: Blob) -> Reading:
    """StoreErrors of a log, each once per writer, kind and address."""
    origins = Origins(blob)
    told: set[tuple[object, ...]] = set()
    found: list[object] = []
    known = 0
    for number, line in marked(blob, _MARKS):
        if line.lstrip().startswith(("File ", "frame #", "raise ")):
            continue
        origin, prefix = origins.of(number, line)
        judged = _kind(prefix.message, prefix.level)
        if judged is None:
            continue
        known += 1
        kind, joined, expected = judged
        address = _address(prefix.message)
        key = (origin.rank, origin.worker, kind, address, joined)
        again = (origin.rank, origin.worker, kind)
        if key in told or (again in told and address is None):
            continue
        told.update((key, again))
        found.append(StoreError(origin, kind, prefix.message.strip()[:MAX_TEXT], address, joined, expected))
    return Reading(tuple(found), (), known)


def _recognises(blob: Blob) -> bool:
    return holds(blob, _MARKS)


READER = Reader("torch store log", Plane.FRAMEWORK_LOG, ReaderKind.LINES, _recognises, read)
