"""YAML or JSON from anybody as plain values, within limits: no anchors, aliases or tags, so no bombs and no objects.

Events of the parser are put together here rather than by `yaml.safe_load`, which expands aliases and recurses before
anything can be counted. Texts that look like dates stay texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import yaml

MOST_BYTES = 4 << 20
"""A fingerprint of 8 GPUs, 16 NICs and 300 PCI devices has some 300 KB."""
MOST_VALUES = 200_000
MOST_DEPTH = 24
"""Lists and mappings in one another; a fingerprint has 7."""
MOST_INTEGER = 1 << 63

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_RESOLVER: Any = yaml.resolver.Resolver()
_NULL, _BOOL, _INT, _FLOAT = (f"tag:yaml.org,2002:{name}" for name in ("null", "bool", "int", "float"))


class YamlRefused(Exception):
    """It is no YAML, or none that is taken from a stranger; the message says what and on which line."""


def plain_values(data: bytes) -> Any:
    """The values of one document: dict with text keys, list, str, int, float, bool, None. Raises YamlRefused."""
    text = _text(data)
    try:
        return _Builder(yaml.parse(text, Loader=_LOADER)).document()
    except yaml.YAMLError as error:
        raise YamlRefused(f"it is no YAML: {_told(error)}") from None
    except RecursionError:
        raise YamlRefused("it is no YAML that can be read: too deep") from None


def json_values(data: bytes) -> Any:
    """The same of JSON. Raises YamlRefused."""
    try:
        found = json.loads(_text(data), object_pairs_hook=_object, parse_int=_whole, parse_constant=_no_number)
    except json.JSONDecodeError as error:
        raise YamlRefused(f"it is no JSON: {error.msg} on line {error.lineno}") from None
    except RecursionError:
        raise YamlRefused("it is no JSON that can be read: too deep") from None
    level = [found]
    for _ in range(MOST_DEPTH + 1):
        level = [one for each in level for one in _inside(each)]
    if level:
        raise YamlRefused(f"lists and objects more than {MOST_DEPTH} deep")
    return found


def _inside(value: Any) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


def _text(data: bytes) -> str:
    if len(data) > MOST_BYTES:
        raise YamlRefused(f"it has {len(data):,} bytes, more than {MOST_BYTES:,}")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise YamlRefused(f"it is no UTF-8: byte {error.start} is 0x{data[error.start]:02x}") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise YamlRefused("a key is there twice")
    return found


def _whole(text: str) -> int:
    found = int(text) if len(text) <= len(str(MOST_INTEGER)) + 1 else MOST_INTEGER
    if not -MOST_INTEGER < found < MOST_INTEGER:
        raise YamlRefused("a number of more than 63 bits")
    return found


def _no_number(text: str) -> None:
    raise YamlRefused(f"{text} is no number that JSON has")


def _told(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} on line {mark.line + 1}" if mark is not None else str(problem)


class _Builder:
    def __init__(self, events: Iterator[Any]) -> None:
        self._events = events
        self._count = 0

    def document(self) -> Any:
        found: Any = None
        documents = 0
        for event in self._events:
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise YamlRefused(f"{_line(event)}: a second document begins; there has to be one")
                found = self._value(next(self._events), 0)
        if not documents:
            raise YamlRefused("it is empty")
        return found

    def _value(self, event: Any, depth: int) -> Any:
        self._count += 1
        if self._count > MOST_VALUES:
            raise YamlRefused(f"{_line(event)}: more than {MOST_VALUES:,} values")
        if depth > MOST_DEPTH:
            raise YamlRefused(f"{_line(event)}: lists and mappings more than {MOST_DEPTH} deep")
        if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) is not None:
            raise YamlRefused(f"{_line(event)}: anchors and aliases are not taken")
        if getattr(event, "tag", None) is not None:
            raise YamlRefused(f"{_line(event)}: tags ({str(event.tag)[:40]}) are not taken")
        if isinstance(event, yaml.SequenceStartEvent):
            found = []
            while not isinstance(inner := next(self._events), yaml.SequenceEndEvent):
                found.append(self._value(inner, depth + 1))
            return found
        if isinstance(event, yaml.MappingStartEvent):
            return self._mapping(depth)
        return _scalar(event)

    def _mapping(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(inner := next(self._events), yaml.MappingEndEvent):
            if not isinstance(inner, yaml.ScalarEvent) or inner.anchor is not None:
                raise YamlRefused(f"{_line(inner)}: a key is no text")
            if inner.value in found:
                raise YamlRefused(f"{_line(inner)}: the key {inner.value[:40]!r} is there twice")
            found[inner.value] = self._value(next(self._events), depth + 1)
        return found


def _scalar(event: Any) -> Any:
    text: str = event.value
    if event.style not in (None, ""):
        return text
    tag = _RESOLVER.resolve(yaml.ScalarNode, text, (True, False))
    try:
        if tag == _NULL:
            return None
        if tag == _BOOL:
            return text.lower() in ("yes", "true", "on")
        if tag == _INT:
            return _whole(text)
        if tag == _FLOAT:
            return float(text.replace("_", ""))
    except ValueError:
        pass  # `.inf`, 12:30.5: never written here, and no number that JSON could hold
    return text


def _line(event: Any) -> str:
    mark = getattr(event, "start_mark", None)
    return f"line {mark.line + 1}" if mark is not None else "somewhere"
