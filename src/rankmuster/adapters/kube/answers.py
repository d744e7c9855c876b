"""What an API server's answer means: an object, or one of the errors, from its status and its Status object.

A Status quotes what was sent ("Invalid value: ..."), and what was sent may hold a secret: quoted values are taken out,
and what is left is one bounded line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import timezone
from email.utils import parsedate_to_datetime
from typing import Any

from rankmuster.adapters.kube.api import Conflict, Forbidden, Invalid, KubeError, NotThere, Object
from rankmuster.adapters.kube.wire import Raw

MOST_WORDS = 300
"""Characters of a Status' message that go into ours."""

MOST_WAIT = 60.0
"""Seconds: the longest Retry-After that is believed. API servers say 1 (priority and fairness) to 30."""

_VALUE = re.compile(r'(Invalid value|Unsupported value|Duplicate value): ?(".*"|\{.*\}|\[.*\]|[^:]*)', re.DOTALL)
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


def parse(raw: Raw) -> Object:
    """The object of a good answer. Raises ValueError where it is none."""
    if raw.cut:
        raise ValueError("it is longer than what is read of an answer")
    try:
        value = json.loads(raw.body)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("it is no JSON object")
    return value


def error_of(raw: Raw, asked: str, *, maybe: bool = False) -> KubeError:
    """The error that stands for a bad answer. `asked`: what of whom, for the message."""
    status = _status(raw)
    reason = status.get("reason") if isinstance(status.get("reason"), str) else ""
    said = spoken(status, raw.status)
    message = f"{asked}: {raw.status}" + (f" {reason}" if reason else "") + (f" ({said})" if said else "")
    which = _KINDS.get(raw.status, KubeError)
    if which is Forbidden:
        message += "; the role lacks it" if raw.status == 403 else "; our credentials are not accepted"
    return which(message, status=raw.status, reason=str(reason), maybe=maybe)


_KINDS: Mapping[int, type[KubeError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotThere,
    409: Conflict,
    410: NotThere,
    422: Invalid,
}


def spoken(status: Mapping[str, Any], code: int) -> str:
    """What a Status says, on one line, without the values that it quotes."""
    message = status.get("message")
    text = message if isinstance(message, str) else ""
    if code in (400, 422):
        details = status.get("details")
        causes = details.get("causes") if isinstance(details, dict) else None
        parts = [_cause(one) for one in (causes if isinstance(causes, list) else [])[:4] if isinstance(one, dict)]
        text = "; ".join(parts) or _unquoted(text)
    return _BLANKS.sub(" ", text).strip()[:MOST_WORDS]


def _cause(cause: Mapping[str, Any]) -> str:
    field, said = cause.get("field"), cause.get("message") or cause.get("reason")
    return f"{field if isinstance(field, str) else '?'}: {_unquoted(said) if isinstance(said, str) else '?'}"


def _unquoted(text: str) -> str:
    return _VALUE.sub(lambda found: found.group(1), text)


def wait_of(raw: Raw, now: float) -> float | None:
    """Seconds that the server wants us to wait, 0 to MOST_WAIT; None where it does not say. `now`: our wall clock.

    A date is compared with the answer's own Date: the server's clock may be another than ours.
    """
    text = raw.headers.get("retry-after", "").strip()
    seconds: float | None = None
    if text.isascii() and text.isdigit():
        seconds = float(text[:9])
    elif text:
        until, at = _date(text), _date(raw.headers.get("date", ""))
        if until is not None:
            seconds = until - (at if at is not None else now)
    else:
        details = _status(raw).get("details")
        given = details.get("retryAfterSeconds") if isinstance(details, dict) else None
        if isinstance(given, (int, float)) and not isinstance(given, bool) and given > 0:
            seconds = float(given)
    return None if seconds is None else min(max(seconds, 0.0), MOST_WAIT)


def _date(text: str) -> float | None:
    try:
        found = parsedate_to_datetime(text)
        return (found if found.tzinfo else found.replace(tzinfo=timezone.utc)).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def _status(raw: Raw) -> Mapping[str, Any]:
    try:
        value = parse(raw)
    except ValueError:
        return {}
    return value if value.get("kind") == "Status" else {}
