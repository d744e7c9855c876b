"""A file of settings as plain values: YAML in which nothing is said twice, and nothing is taken for something else.

YAML lets the last of two equal keys win. Of two `enable:`, one of them far down, that is an actuator that acts and that
nobody sees enabled.
"""

from __future__ import annotations

import json
from typing import Any

MOST_VALUES = 200_000
"""A thousand instances have 40,000; aliases can make billions of a few lines."""

MOST_DEEP = 30


class NotYaml(Exception):
    """It cannot be read; the message says where it is wrong."""


def load(text: str) -> Any:
    """Mappings, lists, texts, numbers, booleans and None. Raises NotYaml."""
    import yaml

    class Loader(yaml.SafeLoader):
        """With a word for keys that are there twice."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            seen = set()
            for key, _ in node.value if isinstance(node, yaml.MappingNode) else ():
                if key.tag != "tag:yaml.org,2002:merge" and key.value in seen and isinstance(key, yaml.ScalarNode):
                    line = key.start_mark.line + 1
                    raise NotYaml(f"line {line}: {str(key.value)[:100]!r} is there twice; only one of them could count")
                if isinstance(key, yaml.ScalarNode):
                    seen.add(key.value)
            return super().construct_mapping(node, deep)

    try:
        raw = yaml.load(text, Loader)  # noqa: S506  # it is a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise NotYaml(f"it is no YAML: {' '.join(str(error).split())[:300]}") from error
    _must_be_plain(raw)
    return raw


def as_json(raw: Any) -> str:
    """The same as JSON, in which a check can tell `yes` from 1 and "5" from 5."""
    return json.dumps(raw)


def _must_be_plain(raw: Any) -> None:
    left = MOST_VALUES
    waiting: list[tuple[str, Any, int]] = [("", raw, 0)]
    while waiting:
        place, value, deep = waiting.pop()
        left -= 1
        if left < 0 or deep > MOST_DEEP:
            raise NotYaml("it refers to itself, or holds more than settings ever do")
        if isinstance(value, dict):
            for key, one in value.items():
                if not isinstance(key, str):
                    said = f"{place.removeprefix('.') or 'the file'}: the key {str(key)[:60]!r} is no text"
                    raise NotYaml(f"{said}; put quotes around it")
                waiting.append((f"{place}.{key}", one, deep + 1))
        elif isinstance(value, list):
            waiting += [(f"{place}.{number}", one, deep + 1) for number, one in enumerate(value)]
        elif value is not None and not isinstance(value, (str, bool, int, float)):
            said = type(value).__name__
            raise NotYaml(f"{place.removeprefix('.')}: {str(value)[:60]!r} is taken for a {said}; put quotes around it")
