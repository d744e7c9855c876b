"""A client for tests of the agents' wire: whole requests, and bytes as they come."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

TOKEN = "a-token-of-this-installation"


def talk(
    address: tuple[str, int],
    method: str,
    path: str,
    body: bytes | None = None,
    *,
    token: str | None = TOKEN,
    headers: dict[str, str] | None = None,
    seconds: float = 20.0,
) -> tuple[int, dict[str, str], bytes]:
    """(status, headers in lower case, body)."""
    connection = http.client.HTTPConnection(*address, timeout=seconds)
    own = {"Authorization": f"Bearer {token}"} if token is not None else {}
    try:
        connection.request(method, path, body, {**own, **(headers or {})})
        answer = connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()
    finally:
        connection.close()


def raw(address: tuple[str, int], data: bytes, *, seconds: float = 10.0) -> bytes:
    """Everything that comes back until the server closes."""
    with socket.create_connection(address, timeout=seconds) as connection:
        connection.sendall(data)
        found = b""
        try:
            while piece := connection.recv(65536):
                found += piece
        except ConnectionError:
            pass
        return found


def status(answer: bytes) -> int:
    """Of a raw answer."""
    return int(answer.split(b" ", 2)[1])


def wish(**more: Any) -> bytes:
    """A body that is one, but for what is changed."""
    said = {
        "schema": "rankmuster.collect-wish/1",
        "instance": "ns.llm.0",
        "incarnation": None,
        "seconds": 3,
        "stopped": False,
        "pods": [{"namespace": "ns", "name": "llm-0", "uid": "aaaaaaaa-0000-0000-0000-000000000001"}],
        **more,
    }
    return json.dumps(said).encode()
