"""Profiles of one's own, as YAML (schema `rankmuster.profile/1`), read strictly: errors name the line and the field.

A key that nobody knows is an error, since a misspelt `iteration` would otherwise measure something else than was asked
for, and its results would be compared.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from rankmuster.model.benchmark import Operation, Profile, Step
from rankmuster.model.sizes_text import parse_size, size_text

SCHEMA = "rankmuster.profile/1"

MOST_BYTES = 1 << 20
"""Of a file: a profile of a thousand sizes has 20 KB."""

MOST_STEPS = 64
MOST_SIZES = 256
LARGEST = 1 << 40
"""Bytes of one operation; GPUs have less memory."""

MOST_ITERATIONS = 100_000
MOST_RANKS = 100_000
DTYPES = ("bfloat16", "half", "float", "double", "int8", "uint8", "int32", "uint32", "int64", "uint64")
"""By nccl-tests' names; `all`, which it also knows, is no type."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ProfileError(Exception):
    """The file is no profile; the message names the line, the field and what would be right."""


def read_profile(data: bytes, source: str) -> Profile:
    """A profile from its YAML. Raises ProfileError."""
    if len(data) > MOST_BYTES:
        raise ProfileError(f"{source}: it has {len(data)} bytes, and no profile has more than {MOST_BYTES}")
    try:
        # composed, not constructed: nodes have their lines, and no tag can make an object
        document = yaml.compose(data.decode("utf-8"), Loader=yaml.SafeLoader)
    except RecursionError as error:
        raise ProfileError(f"{source}: it is nested too deeply; a profile is a mapping with a list of steps") from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise ProfileError(f"{source}: it is no YAML: {' '.join(str(error).split())[:200]}") from error
    return _Reader(source).profile(document)


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source

    def profile(self, node: Any) -> Profile:
        fields = self._mapping(node, "the profile", ("schema", "name", "description", "ranks", "steps"))
        schema = self._text(fields, "schema", node)
        if schema != SCHEMA:
            raise self._wrong(fields["schema"], f"schema is {schema!r}; this version reads {SCHEMA}")
        name = self._text(fields, "name", node)
        if not _NAME.fullmatch(name):
            raise self._wrong(fields["name"], "name may have letters, digits, '.', '_' and '-', 64 at most")
        steps = fields.get("steps")
        if not isinstance(steps, yaml.SequenceNode) or not 0 < len(steps.value) <= MOST_STEPS:
            raise self._wrong(steps or node, f"steps has to be a list of 1 to {MOST_STEPS}")
        return Profile(
            name,
            self._text(fields, "description", node) if "description" in fields else "",
            tuple(self._step(one, f"steps[{place}]") for place, one in enumerate(steps.value)),
            self._integer(fields, "ranks", "ranks", 2, MOST_RANKS) if "ranks" in fields else None,
        )

    def _step(self, node: Any, where: str) -> Step:
        known = ("operation", "sizes", "dtype", "graph", "in_place", "iterations", "warmup")
        fields = self._mapping(node, where, known)
        operation = self._choice(fields, "operation", where, tuple(one.value for one in Operation), node)
        default = Step(Operation(operation), ())
        return Step(
            Operation(operation),
            self._sizes(fields.get("sizes"), f"{where}.sizes", node),
            self._choice(fields, "dtype", where, DTYPES, node) if "dtype" in fields else default.dtype,
            self._truth(fields, "graph", where),
            self._truth(fields, "in_place", where),
            self._integer(fields, "iterations", f"{where}.iterations", 1, MOST_ITERATIONS)
            if "iterations" in fields
            else default.iterations,
            self._integer(fields, "warmup", f"{where}.warmup", 0, MOST_ITERATIONS)
            if "warmup" in fields
            else default.warmup,
        )

    def _sizes(self, node: Any, where: str, owner: Any) -> tuple[int, ...]:
        if not isinstance(node, yaml.SequenceNode) or not 0 < len(node.value) <= MOST_SIZES:
            raise self._wrong(node or owner, f"{where} has to be a list of 1 to {MOST_SIZES} sizes")
        found: list[int] = []
        for one in node.value:
            size = parse_size(one.value) if isinstance(one, yaml.ScalarNode) else None
            if size is None or not 0 < size <= LARGEST:
                raise self._wrong(one, f"{where}: {_shown(one)} is no size; write bytes, or 16 KiB, 4 MiB, 1 GiB")
            if found and size <= found[-1]:
                raise self._wrong(one, f"{where}: {_shown(one)} is not larger than the size before it; sizes rise")
            found.append(size)
        return tuple(found)

    def _mapping(self, node: Any, where: str, known: tuple[str, ...]) -> dict[str, Any]:
        if not isinstance(node, yaml.MappingNode):
            raise self._wrong(node, f"{where} has to be a mapping with {', '.join(known)}")
        found: dict[str, Any] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name not in known:
                raise self._wrong(key, f"{where} has no field {_shown(key)}; it has {', '.join(known)}")
            if name in found:
                raise self._wrong(key, f"{where} has {name} twice")
            found[name] = value
        return found

    def _text(self, fields: dict[str, Any], name: str, owner: Any) -> str:
        node = fields.get(name)
        if not isinstance(node, yaml.ScalarNode) or not node.value:
            raise self._wrong(node or owner, f"{name} is missing or no text")
        return str(node.value)

    def _choice(self, fields: dict[str, Any], name: str, where: str, allowed: tuple[str, ...], owner: Any) -> str:
        node = fields.get(name)
        if not isinstance(node, yaml.ScalarNode) or node.value not in allowed:
            said = f" is {_shown(node)}" if node is not None else " is missing"
            raise self._wrong(node or owner, f"{where}.{name}{said}; it is one of {', '.join(allowed)}")
        return str(node.value)

    def _truth(self, fields: dict[str, Any], name: str, where: str) -> bool:
        node = fields.get(name)
        if node is None:
            return False
        if not isinstance(node, yaml.ScalarNode) or node.value not in ("true", "false"):
            raise self._wrong(node, f"{where}.{name} is {_shown(node)}, not true or false")
        return bool(node.value == "true")

    def _integer(self, fields: dict[str, Any], name: str, where: str, least: int, most: int) -> int:
        node = fields[name]
        text = node.value if isinstance(node, yaml.ScalarNode) else ""
        if not re.fullmatch(r"\d{1,12}", text) or not least <= int(text) <= most:
            raise self._wrong(node, f"{where} is {_shown(node)}, not a whole number from {least} to {most}")
        return int(text)

    def _wrong(self, node: Any, message: str) -> ProfileError:
        line = f" line {node.start_mark.line + 1}:" if node is not None else ""
        return ProfileError(f"{self._source}:{line} {message}")


def _shown(node: Any) -> str:
    return repr(node.value)[:60] if isinstance(node, yaml.ScalarNode) else "a list or mapping"


def as_yaml(profile: Profile, notes: tuple[str, ...] = ()) -> str:
    """The profile as `read_profile` reads it, with `notes` as comments above it."""
    lines = [f"# {''.join(one if one.isprintable() else '?' for one in ' '.join(note.split()))}" for note in notes]
    lines += [f"schema: {SCHEMA}", f"name: {profile.name}"]
    if profile.description:
        lines.append(f"description: {_quoted(profile.description)}")
    if profile.ranks is not None:
        lines.append(f"ranks: {profile.ranks}")
    lines.append("steps:")
    for step in profile.steps:
        lines.append(f"  - operation: {step.operation.value}")
        lines.append(f"    sizes: [{', '.join(size_text(size) for size in step.sizes)}]")
        fields = {
            "dtype": step.dtype,
            "graph": str(step.graph).lower(),
            "in_place": str(step.in_place).lower(),
            "iterations": step.iterations,
            "warmup": step.warmup,
        }
        lines += [f"    {name}: {value}" for name, value in fields.items()]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    return str(yaml.safe_dump(" ".join(text.split()), width=10**6, allow_unicode=True, default_style='"')).strip()
