"""Objects as YAML that people read and review: keys in their order, no anchors, one document an object."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import yaml

WIDTH = 120


class _Plain(yaml.SafeDumper):
    """Every value stands where it is used: an anchor would make a reader of a diff look elsewhere."""

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002  # the library's
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002  # the library's
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    """What has lines keeps them: an expression of Prometheus is reviewed line by line."""
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if "\n" in value else None)


_Plain.add_representer(str, _text)


def as_yaml(objects: Iterable[Mapping[str, Any]]) -> str:
    """`objects` as documents of one text."""
    return "---\n".join(
        yaml.dump(dict(one), Dumper=_Plain, sort_keys=False, width=WIDTH, allow_unicode=True) for one in objects
    )
