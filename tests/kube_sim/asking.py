"""A plain HTTP caller for tests of the simulated API server: what came back, byte by byte, and watches line by line."""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

MERGE, JSON_PATCH = "application/merge-patch+json", "application/json-patch+json"
STRATEGIC, APPLY = "application/strategic-merge-patch+json", "application/apply-patch+yaml"


@dataclass(frozen=True)
class Reply:
    status: int
    headers: Mapping[str, str]
    data: bytes
    body: Any = field(default=None)

    @property
    def reason(self) -> str:
        """Of a Status object."""
        return str(self.body["reason"])


def ask(
    url: str,
    method: str,
    path: str,
    body: Any = None,
    kind: str = "application/json",
    *,
    seconds: float = 20.0,
    **headers: str,
) -> Reply:
    """Raises OSError and http.client.HTTPException where no whole answer comes."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=seconds)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        connection.request(method, path, data, {"Content-Type": kind, **named})
        answer = connection.getresponse()
        raw = answer.read()
        is_json = answer.headers.get_content_type() == "application/json"
        try:
            parsed = json.loads(raw) if is_json else None
        except ValueError:
            parsed = None
        return Reply(answer.status, dict(answer.headers), raw, parsed)
    finally:
        connection.close()


@contextmanager
def watched(url: str, path: str, *, seconds: float = 20.0) -> Iterator[Iterator[dict[str, Any]]]:
    """The events of a watch, as they come; they end with it."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=seconds)
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        with answer:
            yield (json.loads(line) for line in answer)
    finally:
        connection.close()
