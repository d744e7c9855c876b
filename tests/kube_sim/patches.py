"""Three of the four kinds of patches: merge (RFC 7386), JSON (RFC 6902), strategic. The fourth is in `apply`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kube_sim.problems import ApiProblem, bad_request
from kube_sim.shapes import Shape
from kube_sim.values import copied


def merged(value: Any, patch: Any) -> Any:
    """A merge patch: null removes, lists are replaced."""
    if not isinstance(patch, Mapping):
        return copied(patch)
    found = dict(value) if isinstance(value, Mapping) else {}
    for key, one in patch.items():
        if one is None:
            found.pop(key, None)
        else:
            found[key] = merged(found.get(key), one)
    return found


def _refused(message: str) -> ApiProblem:
    return ApiProblem(422, "Invalid", message)


def _tokens(pointer: Any) -> list[str]:
    if not isinstance(pointer, str) or (pointer and not pointer.startswith("/")):
        raise bad_request(f"error decoding patch: invalid pointer {pointer!r}")
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


def _place(items: list[Any], token: str, most: int, path: str) -> int:
    if token == "-":
        return len(items)
    if not token.isdigit() or int(token) > most:
        raise _refused(f"the server rejected our request due to an error in our request: index out of range: {path}")
    return int(token)


_ABSENT = object()


def _read(value: Any, tokens: Sequence[str]) -> Any:
    for token in tokens:
        if isinstance(value, dict) and token in value:
            value = value[token]
        elif isinstance(value, list) and token.isdigit() and int(token) < len(value):
            value = value[int(token)]
        else:
            return _ABSENT
    return value


def _change(document: Any, tokens: Sequence[str], kind: str, value: Any, path: str) -> None:
    parent = _read(document, tokens[:-1])
    last = tokens[-1]
    there = _read(parent, [last]) if isinstance(parent, (dict, list)) else _ABSENT
    if not isinstance(parent, (dict, list)) or (kind != "add" and there is _ABSENT):
        raise _refused(
            f"the server rejected our request due to an error in our request: {kind} operation does not apply: doc is "
            f"missing path: {path}: missing value"
        )
    if kind == "remove":
        del parent[last if isinstance(parent, dict) else int(last)]
    elif isinstance(parent, dict):
        parent[last] = value
    elif kind == "replace":
        parent[int(last)] = value
    else:
        parent.insert(_place(parent, last, len(parent), path), value)


def json_patched(value: Any, operations: Any) -> Any:
    """A JSON patch. A `test` that fails is 422, and nothing is done."""
    if not isinstance(operations, Sequence) or isinstance(operations, (str, bytes)):
        raise bad_request("error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch")
    document = {"": copied(value)}
    for one in operations:
        kind, path = one.get("op"), one.get("path")
        tokens = ["", *_tokens(path)]
        if kind == "test":
            if _read(document, tokens) != one.get("value") and not (
                one.get("value") is None and _read(document, tokens) is _ABSENT
            ):
                raise _refused(
                    f"the server rejected our request due to an error in our request: testing value {path} failed"
                )
            continue
        if kind in ("move", "copy"):
            source = ["", *_tokens(one.get("from"))]
            given = _read(document, source)
            if given is _ABSENT:
                raise _refused(f"the server rejected our request due to an error in our request: missing {one['from']}")
            given = copied(given)
            if kind == "move":
                _change(document, source, "remove", None, str(one["from"]))
            kind = "add"
        elif kind in ("add", "replace", "remove"):
            given = copied(one.get("value"))
        else:
            raise bad_request(f"error decoding patch: unknown operation {kind!r}")
        _change(document, tokens, kind, given, str(path))
    return document[""]


def strategic(value: Any, patch: Any, shape: Shape) -> Any:
    """A strategic merge patch: lists with a merge key are merged by it; `$patch: delete` and `replace` are heeded."""
    if not isinstance(patch, Mapping):
        return copied(patch)
    if patch.get("$patch") == "replace":
        return {key: copied(one) for key, one in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    found = dict(value) if isinstance(value, Mapping) else {}
    for key, one in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            found[name] = [item for item in found.get(name) or () if item not in one]
        elif key.startswith("$setElementOrder/"):
            continue
        elif key == "$retainKeys":
            found = {name: kept for name, kept in found.items() if name in one}
        elif one is None:
            found.pop(key, None)
        elif isinstance(one, list) and shape.field(key).merge_key is not None:
            found[key] = _list_merged(found.get(key), one, shape.field(key))
        else:
            found[key] = strategic(found.get(key), one, shape.field(key))
    return _ordered(found, patch, shape)


def _list_merged(value: Any, patch: Sequence[Any], shape: Shape) -> list[Any]:
    items = list(value or ())
    merge_key = shape.merge_key
    if not merge_key:
        return items + [copied(one) for one in patch if one not in items]
    if any(isinstance(one, Mapping) and one.get("$patch") == "replace" for one in patch):
        return [copied(one) for one in patch if not (isinstance(one, Mapping) and "$patch" in one)]
    for one in patch:
        if not isinstance(one, Mapping) or merge_key not in one:
            raise bad_request(f"map: {one!r} does not contain declared merge key: {merge_key}")
        places = [place for place, item in enumerate(items) if item.get(merge_key) == one[merge_key]]
        if one.get("$patch") == "delete":
            items = [item for place, item in enumerate(items) if place not in places]
        elif places:
            items[places[0]] = strategic(items[places[0]], one, shape.item())
        else:
            items.append(strategic({}, one, shape.item()))
    return items


def _ordered(found: dict[str, Any], patch: Mapping[str, Any], shape: Shape) -> dict[str, Any]:
    for key, order in patch.items():
        name = key.partition("/")[2]
        if not key.startswith("$setElementOrder/") or not isinstance(found.get(name), list):
            continue
        merge_key = shape.field(name).merge_key
        wanted = [one.get(merge_key) if merge_key and isinstance(one, Mapping) else one for one in order]
        known = [item.get(merge_key) if merge_key and isinstance(item, Mapping) else item for item in found[name]]
        rank = {json_key(one): place for place, one in enumerate(wanted)}
        pairs = sorted(zip(known, found[name], strict=True), key=lambda pair: rank.get(json_key(pair[0]), len(rank)))
        found[name] = [item for _, item in pairs]
    return found


def json_key(value: Any) -> Any:
    """Something by which a JSON value can be looked up."""
    return value if not isinstance(value, (dict, list)) else repr(value)
