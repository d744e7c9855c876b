"""What a canary measured, as JSON (schema `rankmuster.canary/1`), and read back without trust."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rankmuster.model.canary import SCHEMA, Judged, Serving
from rankmuster.model.plain_json import Bounds, NotPlain, from_plain, to_plain
from rankmuster.model.strict_json import NotStrict, strict_object

MOST_BYTES = 4 << 20
_BOUNDS = Bounds(text=2_000, members=2_000)


class NotACanary(Exception):
    """The bytes are no canary's document; the message says what is wrong."""


def plain(serving: Serving) -> dict[str, Any]:
    """As values of JSON, `schema` first."""
    return {"schema": SCHEMA, **to_plain(serving, _BOUNDS)}


def render(serving: Serving, judged: Judged) -> str:
    """With what followed of it (`judged`), which whoever reads it back computes anew."""
    return json.dumps({**plain(serving), "judged": to_plain(judged, _BOUNDS)}, indent=1, allow_nan=False) + "\n"


def read(data: bytes | str) -> Serving:
    """Raises NotACanary."""
    try:
        return of_plain(strict_object(data, MOST_BYTES))
    except NotStrict as error:
        raise NotACanary(str(error)) from None


def of_plain(document: Mapping[str, Any]) -> Serving:
    """The same of values that JSON gave. Raises NotACanary."""
    if document.get("schema") != SCHEMA:
        raise NotACanary(f"its schema is {str(document.get('schema'))[:60]!r}, and a canary's is {SCHEMA}")
    try:
        found = from_plain(Serving, document, _BOUNDS)
    except NotPlain as error:
        raise NotACanary(f"it is no whole document of a canary: {error}") from None
    if any(not (load.isascii() and load.isdecimal()) or len(load) > 9 for load in found.speeds):
        raise NotACanary("its speeds are not by load")
    if any(speed < 0 for speeds in found.speeds.values() for speed in speeds):
        raise NotACanary("a speed in it is below nothing")
    return found
