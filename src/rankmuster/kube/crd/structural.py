"""pydantic's JSON schema, as the structural OpenAPI v3 schema that apiextensions.k8s.io/v1 takes.

A structural schema has one type at each place, no `$ref`, no `anyOf`, no `patternProperties`, and not both `properties`
and `additionalProperties`. What cannot be said so is refused here (NotStructural), when the definitions are written,
and not by an API server when they are applied.

Two things are decided here, not taken over:

- Nothing grows without bound: an array, a map or a string for which the model names no most gets one.
- No default is left in: an object stays as somebody wrote it, and a later version may have another default. The
  default is named in the description, where `kubectl explain` shows it.

Source: Kubernetes, "Extend the API with CustomResourceDefinitions", "Specifying a structural schema".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel
from pydantic.alias_generators import to_camel

MOST_ITEMS = 64
"""Items of an array, and keys of a map, whose model names no most: an object has to fit into etcd's 1.5 MiB."""

MOST_CHARACTERS = 1024
"""Of a string whose model names no most: a message."""

MOST_DESCRIPTION = 240
"""Characters of a description, cut at the end of a sentence: three lines of `kubectl explain`."""

TIMES = re.compile(r"(^|[a-z])(At|Time)$")
"""Names of strings that are RFC 3339 times: only such ones are shown as an age by a printer column."""

ATOMIC = frozenset({"Selector"})
"""Models that one manager of fields owns whole, as Kubernetes has its selectors: halves of two fit something else."""

KEPT = frozenset({"enum", "format", "maxItems", "maxLength", "maximum", "minItems", "minLength", "minimum", "pattern"})
DROPPED = frozenset({"title", "default", "description", "additionalProperties", "propertyNames", "$ref"})
TAKEN = frozenset({"type", "properties", "required", "items", "const", "exclusiveMinimum", "exclusiveMaximum", "anyOf"})

Schema = dict[str, Any]


class NotStructural(ValueError):
    """A model says what a structural schema cannot; the message names the place and the reason."""


def structural(model: type[BaseModel]) -> Schema:
    """The schema of one model.

    Raises:
        NotStructural: see there.
    """
    whole = model.model_json_schema(by_alias=True, mode="validation")
    return _of(whole, whole.get("$defs", {}), model.__name__, ())


def _of(given: Mapping[str, Any], defs: Mapping[str, Any], place: str, above: tuple[str, ...]) -> Schema:
    schema, nullable, above = _resolved(given, defs, place, above)
    described = _description(schema.get("description", ""))
    if unknown := set(schema) - KEPT - DROPPED - TAKEN - {"patternProperties", "$defs"}:
        raise NotStructural(f"{place}: {', '.join(sorted(unknown))} has no structural form")
    made: Schema = {"description": described} if described else {}
    kind = schema.get("type") or _type_of(schema, place)
    made["type"] = kind
    made |= {key: value for key, value in schema.items() if key in KEPT}
    if "const" in schema:
        made["enum"] = [schema["const"]]
    made |= _limits(schema)
    if kind == "object":
        made |= _object(schema, defs, place, above)
    elif kind == "array":
        made |= _array(schema, defs, place, above)
    elif kind == "integer":
        made["format"] = "int64"
    elif kind == "string" and "enum" not in made:
        made.setdefault("maxLength", MOST_CHARACTERS)
    if nullable and "enum" not in made:  # null would have to be one of the enum's values as well
        made["nullable"] = True
    return made


def _resolved(
    given: Mapping[str, Any], defs: Mapping[str, Any], place: str, above: tuple[str, ...]
) -> tuple[Schema, bool, tuple[str, ...]]:
    """Without `$ref` and without the `anyOf` of what may be null; the description nearest to the place wins."""
    schema, nullable = dict(given), False
    while "$ref" in schema or "anyOf" in schema:
        own = {key: value for key, value in schema.items() if key not in ("$ref", "anyOf", "title")}
        if "$ref" in schema:
            name = schema["$ref"].rpartition("/")[2]
            if name in above:
                raise NotStructural(f"{place}: {name} holds itself, and a structural schema has an end")
            above = (*above, name)
            schema = {**defs[name], **own}
            continue
        some = [one for one in schema["anyOf"] if one.get("type") != "null"]
        if len(some) != 1 or len(schema["anyOf"]) > 2:
            raise NotStructural(f"{place}: may be of several types; a structural schema knows one type a place")
        nullable = nullable or len(some) < len(schema["anyOf"])
        schema = {**some[0], **own}
    return schema, nullable, above


def _type_of(schema: Mapping[str, Any], place: str) -> str:
    """Of what pydantic writes without a type: a constant."""
    value = schema.get("const")
    for type_, name in ((bool, "boolean"), (str, "string"), (int, "integer"), (float, "number")):
        if isinstance(value, type_):
            return name
    raise NotStructural(f"{place}: has no type; anything goes there, also what nobody reads")


def _limits(schema: Mapping[str, Any]) -> Schema:
    """OpenAPI 3.0 says with a flag that a limit itself is out."""
    found: Schema = {}
    for exclusive, inclusive in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if exclusive in schema:
            found |= {inclusive: schema[exclusive], exclusive: True}
    return found


def _object(schema: Mapping[str, Any], defs: Mapping[str, Any], place: str, above: tuple[str, ...]) -> Schema:
    properties = schema.get("properties")
    if properties is None:
        return _map(schema, defs, place, above)
    if schema.get("additionalProperties"):
        raise NotStructural(f"{place}: has named properties and any others; a structural schema has one or the other")
    told = dict(_fields_of(schema.get("description", ""), properties))
    made: Schema = {"properties": {}}
    for name, one in properties.items():
        found = _of(one, defs, f"{place}.{name}", above)
        text = _description(told.get(name, "")) or found.get("description", "")
        text = " ".join(part for part in (text, _default_of(one)) if part)
        if found["type"] == "string" and "enum" not in found and TIMES.search(name):
            found["format"] = "date-time"
        made["properties"][name] = ({"description": text} if text else {}) | {
            key: value for key, value in found.items() if key != "description"
        }
    if schema.get("required"):
        made["required"] = list(schema["required"])
    if schema.get("title") in ATOMIC:
        made["x-kubernetes-map-type"] = "atomic"
    return made


def _map(schema: Mapping[str, Any], defs: Mapping[str, Any], place: str, above: tuple[str, ...]) -> Schema:
    """Of keys that a list of names closes, named properties: a misspelt one is refused by name (kubectl's strict
    validation). Else a map; what its keys look like is the controller's to check."""
    patterns = schema.get("patternProperties", {})
    of_all = schema.get("additionalProperties") or None
    values = [*patterns.values(), *((of_all,) if of_all is not None else ())]
    if len(values) != 1 or of_all is True:
        raise NotStructural(f"{place}: a map has to have one type of values")
    keys, _, _ = _resolved(schema.get("propertyNames", {}), defs, place, above)
    value = _of(values[0], defs, f"{place}.*", above)
    if "enum" in keys:
        return {"properties": {name: dict(value) for name in keys["enum"]}}
    return {"additionalProperties": value, "maxProperties": schema.get("maxProperties", MOST_ITEMS)}


def _array(schema: Mapping[str, Any], defs: Mapping[str, Any], place: str, above: tuple[str, ...]) -> Schema:
    if not isinstance(schema.get("items"), Mapping):
        raise NotStructural(f"{place}: an array's items have to be of one type")
    items = _of(schema["items"], defs, f"{place}[]", above)
    most = len(items["enum"]) if "enum" in items else MOST_ITEMS
    made: Schema = {"items": items, "maxItems": schema.get("maxItems", most)}
    if {"type", "status", "lastTransitionTime"} <= set(items.get("properties", {})):
        # conditions: several controllers may each keep their own
        return made | {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]}
    return made | {"x-kubernetes-list-type": "atomic"}


def _fields_of(text: str, properties: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What a model's docstring says of its fields: "`a`: of a. `b`, `c`: of both."."""
    marks = list(re.finditer(r"(?:^|(?<=[\s;]))((?:`\w+`(?:, | and )?)+):\s", text))
    for number, mark in enumerate(marks):
        end = marks[number + 1].start() if number + 1 < len(marks) else len(text)
        said = text[mark.end() : end]
        for name in re.findall(r"`(\w+)`", mark[1]):
            alias = next((one for one in (name, to_camel(name), name.rstrip("_")) if one in properties), None)
            if alias is not None:
                yield alias, said


def _description(text: str) -> str:
    """On one line, without the mark of code and what is said of single fields, not longer than a few lines."""
    first = re.split(r"(?:^|(?<=[\s;]))(?:`\w+`(?:, | and )?)+:\s", text, maxsplit=1)[0]
    plain = " ".join(first.replace("`", "").split()).rstrip(" ;:")
    if len(plain) > MOST_DESCRIPTION:
        cut = plain[:MOST_DESCRIPTION]
        plain = cut[: cut.rfind(". ") + 1] or cut[: cut.rfind(" ")] + " ..."
    if not plain:
        return ""
    return plain[0].upper() + plain[1:] + ("" if plain.endswith((".", "!", "?")) else ".")


def _default_of(schema: Mapping[str, Any]) -> str:
    value = schema.get("default")
    if isinstance(value, bool):
        return f"Default: {str(value).lower()}."
    if isinstance(value, (int, float)):
        return f"Default: {value:g}." if value else ""
    return f"Default: {value}." if isinstance(value, str) and value else ""
