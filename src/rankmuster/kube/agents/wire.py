"""What is said between controller, sidecar and node agent over HTTP: names, limits, and a wish as it is read. Pure.

A body from the network is checked field by field; the refusal says which field is wrong and what would be right.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from rankmuster.adapters.kube.agent_wire import WISH

NOTE = "X-Rankmuster-Note"
INSTANCE = "X-Rankmuster-Instance"

BUNDLE_TYPE = "application/zstd"

MAX_WISH = 256 << 10
"""Bytes of a wish: 1,000 pods have 200 KiB."""

MAX_PODS = 1024

LEAST_SECONDS, MOST_SECONDS = 2.0, 600.0
"""Of a collection, as `rankmuster collect --deadline` takes it."""

MAX_BUNDLE = 2 << 30
"""Bytes of a bundle that is put: with dumps of 64 ranks and long logs some hundred MB."""

BUNDLE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,180}\.tar\.zst")
"""No slash and no dot first: it is a file in one folder, whatever is sent."""

UID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
"""A UUID, and in a mirror pod a hash."""

_TEXT = 253


class WishRefused(Exception):
    """The body is no wish; the message says why."""


@dataclass(frozen=True, slots=True)
class WishedPod:
    """One pod whose evidence is wanted."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Wish:
    """`incarnation`: as the caller knows it, None where nobody does. `seconds`: for all of it. `stopped`: it is known
    that the instance has stopped."""

    instance: str
    incarnation: str | None
    seconds: float
    stopped: bool
    pods: tuple[WishedPod, ...]


def read_wish(body: bytes) -> Wish:
    """Raises WishRefused."""
    try:
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise WishRefused(f"the body is no JSON ({str(error)[:100]})") from error
    if not isinstance(said, dict):
        raise WishRefused("the body is no JSON object")
    if said.get("schema") != WISH:
        raise WishRefused(f"schema is {str(said.get('schema'))[:80]!r}; this version takes {WISH}")
    instance = _text(said, "instance")
    if instance is None:
        raise WishRefused("instance is missing: whose evidence is wanted?")
    seconds = said.get("seconds", 20)
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds <= MOST_SECONDS:
        raise WishRefused(f"seconds is {str(seconds)[:40]!r}; wanted is a number up to {MOST_SECONDS:.0f}")
    stopped = said.get("stopped", False)
    if not isinstance(stopped, bool):
        raise WishRefused("stopped is neither true nor false")
    pods = said.get("pods") or []
    if not isinstance(pods, list) or len(pods) > MAX_PODS:
        raise WishRefused(f"pods is no list of at most {MAX_PODS}")
    return Wish(
        instance, _text(said, "incarnation"), max(float(seconds), LEAST_SECONDS), stopped, tuple(map(_pod, pods))
    )


def _pod(said: object) -> WishedPod:
    if not isinstance(said, dict):
        raise WishRefused("a pod is no object with namespace, name and uid")
    namespace, name, uid = _text(said, "namespace"), _text(said, "name"), _text(said, "uid")
    if uid is None or UID.fullmatch(uid) is None:
        raise WishRefused(f"a pod's uid is {str(uid)[:60]!r}, which is none")
    return WishedPod(namespace or "", name or "", uid)


def _text(said: dict[str, Any], field: str) -> str | None:
    value = said.get(field)
    if value is None or value == "":
        return None
    if not isinstance(value, str) or len(value) > _TEXT or not value.isprintable():
        raise WishRefused(f"{field} is no text of at most {_TEXT} printable characters")
    return value
