"""What the webhooks share: one JSON value posted with an Idempotency-Key, one asked for, and answers in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rankmuster.adapters.header_file import BadHeaders, read_headers
from rankmuster.adapters.http_call import NotCalled, Reply, call, server_of
from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Answer, Ending
from rankmuster.report.inert import plain

MAX_ANSWER = 64 << 10
"""Bytes: both kinds of answers have some fields."""

SHOWN = 200
"""Characters of an answer that are quoted."""

ENDINGS = {202: Ending.PARTIAL, 409: Ending.REFUSED, 501: Ending.REFUSED}
"""Of statuses that say more than whether it was done: accepted, somebody else's, not offered here."""


class NotSeen(Exception):
    """Nothing usable came back; the message says why."""


def post(url: str, header_file: Path | None, key: str, value: Mapping[str, Any], deadline: Deadline) -> Answer:
    """DONE for 200 and 204, PARTIAL for 202 (accepted, not done), REFUSED for 409 and 501, FAILED for all others.

    Data: what it answered, where that is a JSON object. The address is named without its path, which may be secret.
    """
    whom = server_of(url)
    try:
        headers = {**read_headers(header_file), "Idempotency-Key": key}
        reply = call("POST", url, deadline, headers=headers, body=json.dumps(value).encode(), most=MAX_ANSWER)
    except BadHeaders as error:
        return Answer(ending=Ending.FAILED, note=str(error))
    except NotCalled as error:
        ending = Ending.TIMED_OUT if deadline.passed else Ending.FAILED
        return Answer(ending=ending, note=f"{value['verb']} was posted to {whom}: {error}")
    ending = ENDINGS.get(reply.status, Ending.DONE if reply.good else Ending.FAILED)
    note = f"{whom} answered {value['verb']} with status {reply.status}{_quoted(reply)}"
    try:
        said = reply.json()
    except ValueError:
        said = None
    return Answer(ending=ending, note=note, data=said if isinstance(said, dict) else {})


def ask(url: str, header_file: Path | None, deadline: Deadline) -> Mapping[str, Any]:
    """The JSON object that GET answers with status 200. Raises NotSeen."""
    whom = server_of(url)
    try:
        reply = call("GET", url, deadline, headers=read_headers(header_file), most=MAX_ANSWER)
    except (BadHeaders, NotCalled) as error:
        raise NotSeen(f"{whom}: {error}") from error
    if reply.status != 200:
        raise NotSeen(f"{whom} answered with status {reply.status}{_quoted(reply)}")
    try:
        found = reply.json()
    except ValueError as error:
        raise NotSeen(f"{whom} answered something else than JSON{_quoted(reply)}") from error
    if not isinstance(found, dict):
        raise NotSeen(f"{whom} answered something else than an object{_quoted(reply)}")
    return found


def text_of(value: Mapping[str, Any], key: str) -> str:
    """A text of a foreign answer, inert; empty where there is none."""
    found = value.get(key)
    return plain(found, SHOWN) if isinstance(found, str) else ""


def _quoted(reply: Reply) -> str:
    said = plain(reply.text(), SHOWN)
    return f" ({said})" if said and not reply.good else ""
