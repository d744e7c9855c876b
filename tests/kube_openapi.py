"""What an API server checks of an object of ours: its schema, as JSON Schema's draft 4, which has exclusive limits as
flags. What is not named is refused, as kubectl's strict validation does (an API server prunes it)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jsonschema

UNTOUCHED = ("metadata",)
"""Checked by the API server's own types."""


def problems(schema: dict[str, Any], given: Any) -> list[str]:
    """What is wrong with `given`, one line each."""
    checker = jsonschema.Draft4Validator(_draft4(schema), format_checker=jsonschema.FormatChecker())
    return [f"{'.'.join(map(str, error.path))}: {error.message}" for error in checker.iter_errors(given)]


def _draft4(schema: dict[str, Any]) -> dict[str, Any]:
    made = {key: value for key, value in schema.items() if not key.startswith("x-") and key != "nullable"}
    if schema.get("nullable"):
        made["type"] = [schema["type"], "null"]
    if "properties" in schema:
        made["properties"] = {name: _draft4(one) for name, one in schema["properties"].items()}
        made["additionalProperties"] = False
    for key in ("items", "additionalProperties"):
        if isinstance(schema.get(key), dict):
            made[key] = _draft4(schema[key])
    return made


def places(schema: dict[str, Any], at: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema within one, with its place."""
    yield at, schema
    for name, one in schema.get("properties", {}).items():
        yield from places(one, f"{at}.{name}")
    for key, mark in (("items", "[]"), ("additionalProperties", ".*")):
        if isinstance(schema.get(key), dict):
            yield from places(schema[key], at + mark)
