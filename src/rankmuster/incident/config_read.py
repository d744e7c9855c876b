"""Reads the settings of `rankmuster incident`: what could never work is refused before anything happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.config_objections import objections
from rankmuster.incident.config_yaml import NotYaml, as_json, load
from rankmuster.model.incident import Step

MAX_BYTES = 1 << 20
"""Of a configuration: a thousand instances take 300 KiB."""

MOST_SAID = 5
"""Faults that are told at once."""

ROLES = ("traffic", "group", "node", "retest")
"""What can be enabled. Evidence only reads, and needs no leave."""

APPROVABLE = (Step.SHED, Step.STOP_TRAFFIC, Step.FENCE, Step.CUT, Step.TERMINATE)
"""Steps before which an operator may be waited for: those that take something away."""


class ConfigRefused(Exception):
    """The file cannot be used; the message says where it is wrong and what would be right."""


def read(text: str, name: str) -> IncidentConfig:
    """The configuration in `text`. `name`: of the file, for messages. Raises ConfigRefused."""
    config: IncidentConfig = checked(IncidentConfig, text, name, "instances", _called_class)
    _must_make_sense(config, name)
    return config


def checked(
    wanted: type[Any],
    text: str,
    name: str,
    example: str,
    rename: Callable[[dict[Any, Any], str], dict[Any, Any]] | None = None,
) -> Any:
    """A frozen value of settings (`model.checked.Part`) of a YAML file. `example`: a key that it may have; `rename`: of
    keys that Python cannot call so. Raises ConfigRefused, which says where it is wrong."""
    from pydantic import TypeAdapter, ValidationError

    if len(text) > MAX_BYTES:
        raise ConfigRefused(f"{name} has {len(text)} characters; a configuration has at most {MAX_BYTES}")
    try:
        raw = load(text)
    except NotYaml as error:
        raise ConfigRefused(f"{name}: {error}") from error
    if raw is None:
        raw = {}
    if not isinstance(raw, dict):
        raise ConfigRefused(f"{name} holds a {type(raw).__name__}; wanted are keys such as `{example}:`")
    try:
        # strictly, as JSON: `drain: yes` is no second, and "5" no number
        return TypeAdapter(wanted).validate_json(as_json(rename(raw, name) if rename is not None else raw), strict=True)
    except ValidationError as error:
        told = "; ".join(_told(one) for one in error.errors()[:MOST_SAID])
        raise ConfigRefused(f"{name}: {told}") from error


def _called_class(raw: dict[Any, Any], name: str) -> dict[Any, Any]:
    """Rows of `recovery` with `class` as Python has it."""
    rows = raw.get("recovery")
    if not isinstance(rows, list):
        return raw
    found = []
    for number, row in enumerate(rows):
        if isinstance(row, dict) and "class_" in row:
            raise ConfigRefused(f"{name}: recovery.{number}.class_: there is no such key; it is called class")
        found.append(
            {("class_" if key == "class" else key): value for key, value in row.items()}
            if isinstance(row, dict)
            else row
        )
    return {**raw, "recovery": found}


_WANTED = {
    "unexpected_keyword_argument": "there is no such key",
    "missing": "it is missing",
    "union_tag_not_found": "its kind is missing",
    "string_type": "a text is wanted; put quotes around what YAML takes for something else",
    "tuple_type": "a list is wanted",
    "dataclass_type": "keys and their values are wanted",
    "dict_type": "keys and their values are wanted",
    "float_type": "a number is wanted",
    "int_type": "a whole number is wanted",
    "bool_type": "true or false is wanted",
    "string_pattern_mismatch": "it is no name: letters, digits and . _ - make one, a letter or digit first",
}
"""By pydantic's type of an error, where its own words are not a person's."""


def _told(one: Any) -> str:
    place = ".".join(str(part).removesuffix("_") for part in one["loc"] if part != "[key]") or "the file"
    if one["type"] == "too_short":
        return f"{place}: it is empty"
    return f"{place}: {_WANTED.get(one['type'], str(one['msg']).replace('Input should', 'it should'))}"


def _must_make_sense(config: IncidentConfig, name: str) -> None:
    for entry in config.enable:
        instance, slash, role = entry.rpartition("/")
        if role not in ROLES:
            raise ConfigRefused(
                f"{name}: enable: {entry!r} enables nothing; it is one of {', '.join(ROLES)}, for one instance with "
                "its name before it (llm-0/group)"
            )
        if slash and instance not in config.instances:
            there = ", ".join(sorted(config.instances)[:10]) or "none"
            raise ConfigRefused(f"{name}: enable: {entry!r} names an instance that is not configured; there is {there}")
    for step in config.approve:
        if step not in APPROVABLE:
            steps = ", ".join(one.value for one in APPROVABLE)
            raise ConfigRefused(f"{name}: approve: {step.value} needs no approval; those that may wait are {steps}")
    for instance, one in config.instances.items():
        if not instance or instance != instance.strip() or "/" in instance or not instance.isprintable():
            raise ConfigRefused(f"{name}: instances: {instance!r} is no name of an instance")
        kinds = [*one.traffic, *one.node]
        if any(kind in kinds[:number] for number, kind in enumerate(kinds)):
            raise ConfigRefused(f"{name}: instances.{instance}: the same actuator is given twice")
        if one.node and one.group is None:
            raise ConfigRefused(
                f"{name}: instances.{instance}: nodes would be fenced and no group is given that could be rebuilt; "
                "add group, or leave node out"
            )
    wrong = objections(config)
    if wrong:
        raise ConfigRefused(f"{name}: {'; '.join(wrong[:MOST_SAID])}")


def enabled_roles(config: IncidentConfig, instance: str) -> frozenset[str]:
    """The roles that may act for this instance."""
    found = set()
    for entry in config.enable:
        of, slash, role = entry.rpartition("/")
        if not slash or of == instance:
            found.add(role)
    return frozenset(found)
