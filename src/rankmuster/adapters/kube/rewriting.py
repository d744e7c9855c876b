"""A change to one object that is bound to what was read of it: read, change, and again where somebody was faster.

A name may be given to another object between two looks. So what is read again must still have the UID that was meant;
the resourceVersion in the body then makes the server refuse whatever has changed since.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from rankmuster.adapters.kube.api import Api, Conflict, Invalid, Kind, KubeError, NotThere, Object
from rankmuster.adapters.kube.fields import text
from rankmuster.collect.deadline import Deadline

MOST_ROUNDS = 10
"""Kubelets write a node's or pod's status every few seconds; whoever loses ten times against somebody is fighting."""

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0

Pause = Callable[[float], None]


def rewrite(
    api: Api,
    kind: Kind,
    name: str,
    namespace: str | None,
    change: Callable[[Object], Mapping[str, Any] | None],
    deadline: Deadline,
    *,
    uid: str | None = None,
    subresource: str | None = None,
    strategic: bool = False,
    pause: Pause = time.sleep,
) -> tuple[Object, bool]:
    """The object as it is now, and whether it was written. `change`: of what was read, a patch without metadata of its
    binding, or None where nothing has to be done; it may raise. `uid`: the one that is meant; None: the one that is
    read first. Raises KubeError; NotThere where another object has the name by now."""
    for number in range(1, MOST_ROUNDS + 1):
        found = api.get(kind, name, namespace, deadline)
        has, version = text(found, "metadata", "uid"), text(found, "metadata", "resourceVersion")
        if not has or not version:
            raise KubeError(f"{kind.kind} {_named(namespace, name)} was read without a UID or resourceVersion")
        uid = uid or has
        if has != uid:
            raise NotThere(f"{kind.kind} {_named(namespace, name)} is another one now ({has}, and {uid} was meant)")
        patch = change(found)
        if patch is None:
            return found, False
        try:
            body = bound(patch, uid, version)
            return (
                api.patch(kind, name, namespace, body, deadline, subresource=subresource, strategic=strategic),
                True,
            )
        except Conflict as error:
            seconds = min(FIRST_PAUSE * 2 ** (number - 1), LONGEST_PAUSE)
            if number == MOST_ROUNDS or deadline.remaining() <= seconds:
                why = f"{error}; others changed it {number} times meanwhile"
                raise Conflict(why, status=error.status, reason=error.reason, late=deadline.passed) from error
            pause(seconds)
    raise AssertionError("the last round returns or raises")


def bound(patch: Mapping[str, Any], uid: str, version: str) -> dict[str, Any]:
    """The patch, with what the server compares."""
    return {**patch, "metadata": {**patch.get("metadata", {}), "uid": uid, "resourceVersion": version}}


def apply_to(
    api: Api,
    kind: Kind,
    name: str,
    namespace: str | None,
    uid: str,
    fields: Mapping[str, Any],
    deadline: Deadline,
    *,
    subresource: str | None = None,
    force: bool = False,
    manager: str | None = None,
) -> Object:
    """Server-side apply of `fields` to the object with that UID. Raises KubeError: Conflict where another manager owns
    a field (`force` takes it over), or another object has the name; NotThere where there is none: it is not created
    anew."""
    body = {**fields, "metadata": {**fields.get("metadata", {}), "name": name, "uid": uid}}
    if kind.namespaced:
        body["metadata"]["namespace"] = namespace
    try:
        return api.apply(kind, body, deadline, subresource=subresource, force=force, manager=manager)
    except Conflict as error:
        if "no existing object" in str(error):
            raise NotThere(str(error), status=404, reason="NotFound") from error
        raise
    except Invalid as error:
        if "metadata.uid" in str(error):
            raise Conflict(str(error), status=409, reason="Conflict") from error
        raise


def _named(namespace: str | None, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
