"""get and list, with pages that are of one moment."""

from __future__ import annotations

import base64
import json
from typing import Any

from kube_sim.call import Answer, Call, Object, answer_of, encoded, shown
from kube_sim.problems import ApiProblem, bad_request
from kube_sim.store import Store


def get(store: Store, call: Call) -> Answer:
    target = call.target
    return answer_of(store.row(target.info.key, target.namespace, target.name or ""), target)


def selected(store: Store, call: Call, *, at: int | None = None) -> list[Object]:
    """What the selectors of a list, a watch or a deletecollection choose."""
    target = call.target
    fields = call.query.get("fieldSelector")
    if target.name is not None:
        fields = f"metadata.name={target.name}"
    return store.rows(target.info.key, target.namespace, call.query.get("labelSelector"), fields, at=at)


def too_large(asked: int, current: int) -> ApiProblem:
    """A resourceVersion that is not there yet: the real server waits three seconds, then answers this."""
    return ApiProblem(
        504,
        "Timeout",
        f"Too large resource version: {asked}, current: {current}",
        details={"causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]},
        retry_after=1,
    )


def version_of(call: Call) -> int | None:
    """The resourceVersion that was asked for. Raises ApiProblem 400."""
    text = call.query.get("resourceVersion") or ""
    if not text:
        return None
    if not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": strconv.ParseUint: parsing "{text}": invalid syntax')
    return int(text)


def listed(store: Store, call: Call) -> Answer:
    """A List object. `limit` is not heeded where resourceVersion is 0, as with the real server's cache."""
    info = call.target.info
    limit = _number(call, "limit")
    token = call.query.get("continue")
    asked = version_of(call)
    with store.still():
        current = store.resource_version
        after: list[str] | None = None
        at = current
        if token:
            at, after = _decoded(token)
            if asked not in (None, 0):
                raise bad_request("specifying resource version is not allowed when using continue")
        elif asked and asked > current:
            raise too_large(asked, current)
        elif asked and call.query.get("resourceVersionMatch") == "Exact":
            at = asked
        rows = selected(store, call, at=at)
    if after is not None:
        rows = [one for one in rows if _place(one) > after]
    metadata: dict[str, Any] = {"resourceVersion": str(at)}
    if limit and asked != 0 and len(rows) > limit:
        metadata["continue"] = _token(at, _place(rows[limit - 1]))
        metadata["remainingItemCount"] = len(rows) - limit
        rows = rows[:limit]
    items = [_item(one, call) for one in rows]
    head = {"kind": f"{info.kind}List", "apiVersion": call.target.api_version, "metadata": metadata}
    return Answer(encoded({**head, "items": items}))


def _item(obj: Object, call: Call) -> Object:
    """Items of Kubernetes' own lists have no kind and version of their own: clients rely on it, and trip over it."""
    info = call.target.info
    if info.custom:
        return shown(obj, info, call.target.version)
    return {key: value for key, value in obj.items() if key not in ("apiVersion", "kind")}


def _place(obj: Object) -> list[str]:
    return [obj["metadata"].get("namespace", ""), obj["metadata"]["name"]]


def _token(version: int, place: list[str]) -> str:
    return base64.urlsafe_b64encode(json.dumps([version, place]).encode()).decode()


def _decoded(token: str) -> tuple[int, list[str]]:
    try:
        version, place = json.loads(base64.urlsafe_b64decode(token))
        return int(version), [str(place[0]), str(place[1])]
    except (ValueError, TypeError, IndexError):
        raise bad_request("continue key is not valid") from None


def _number(call: Call, name: str) -> int:
    text = call.query.get(name) or "0"
    if not text.isdigit():
        raise bad_request(f'Invalid value: "{text}": {name} must be a number')
    return int(text)
