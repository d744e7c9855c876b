"""Manifests in and out: several documents, each as it was unless something in it was changed. Pure.

Kubernetes reads YAML with another reader than Python's: what both read alike is written so that it stays so. A string
that any reader might take for a number, a truth or a time is quoted; a document that nobody changed is passed through
byte for byte, with its comments.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import yaml

MAX_BYTES = 16 << 20
MAX_NODES = 500_000
"""Values of one document with its aliases written out: a bomb of aliases has more than any cluster's manifests."""

MAX_DEPTH = 100

_BEGIN = re.compile(r"^---(?=[ \t\r\n]|$)", re.MULTILINE)
_PLAIN = re.compile(r"[A-Za-z/](?:[A-Za-z0-9_./:@-]*[A-Za-z0-9_/])?")
_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf"})
_TEMPLATE = re.compile(r"\{\{")


class NotReadable(Exception):
    """The text is no YAML that Kubernetes would take; the message says where, and what to do."""


@dataclass
class Document:
    """`text`: as it came, with its `---` line if it has one. `value`: of it, None where there is nothing in it."""

    text: str
    value: Any
    changed: bool = False


class _Loader(yaml.SafeLoader):
    """Strings stay strings where Kubernetes' reader has no such type; a key that is there twice is an error."""


_Loader.yaml_implicit_resolvers = {
    first: [
        (tag, pattern)
        for tag, pattern in found
        if tag not in ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:int", "tag:yaml.org,2002:float")
    ]
    for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:int",
    re.compile(r"[-+]?(?:0|[1-9][0-9_]*|0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+)\Z"),
    list("-+0123456789"),
)
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z|[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z"
    ),
    list("-+0123456789."),
)


def _integer(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> int:
    text = str(loader.construct_scalar(node)).replace("_", "")
    sign, digits = (-1, text[1:]) if text[0] == "-" else (1, text.lstrip("+"))
    if digits.startswith("0o"):
        return sign * int(digits[2:], 8)
    if digits.startswith(("0b", "0x")):
        return sign * int(digits, 0)
    return sign * (int(digits, 8) if len(digits) > 1 and digits[0] == "0" else int(digits))


def _mapping(loader: yaml.SafeLoader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:  # noqa: ARG001, FBT
    seen: set[str] = set()
    for key, _ in node.value:
        name = key.value if isinstance(key, yaml.ScalarNode) else None
        if name is None:
            raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
        if name in seen and key.tag != "tag:yaml.org,2002:merge":
            raise yaml.constructor.ConstructorError(None, None, f"the key {name[:60]!r} is there twice", key.start_mark)
        seen.add(name)
    loader.flatten_mapping(node)
    return {
        str(loader.construct_object(key, deep=True)): loader.construct_object(value, deep=True)
        for key, value in node.value
    }


def _as_text(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> str:
    return str(loader.construct_scalar(node))


_Loader.add_constructor("tag:yaml.org,2002:int", _integer)
_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)
for _tag in ("value", "merge"):  # a lone "=" or "<<" as a value
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _as_text)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - every alias is written out
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT
        return super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    if "\n" in value:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|")
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return dumper.represent_scalar("tag:yaml.org,2002:str", value)
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style='"')


_Dumper.add_representer(str, _text)


def read(text: str, name: str) -> list[Document]:
    """The documents of a stream. `name`: of the file, for messages. Raises NotReadable."""
    if len(text) > MAX_BYTES:
        raise NotReadable(f"{name} has more than {MAX_BYTES >> 20} MiB")
    text = text.removeprefix("\ufeff")
    cuts = [match.start() for match in _BEGIN.finditer(text)]
    edges = [*([0] if not cuts or cuts[0] > 0 else []), *cuts, len(text)]
    parts = [text[begin:end] for begin, end in pairwise(edges)]
    line = 1
    found = []
    for part in parts:
        found.append(Document(part, _value(part, name, line)))
        line += part.count("\n")
    return found


def _value(text: str, name: str, line: int) -> Any:
    try:
        loader = _Loader(text)
        try:
            node = loader.get_single_node()
            if node is None:
                return None
            _measure(node, name)
            value = loader.construct_document(node)
        finally:
            loader.dispose()
        # apart from aliases: one list that two templates share would be changed in both
        return json.loads(json.dumps(value))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" line {mark.line + line}" if mark is not None else ""
        hint = "; it looks like a template: render it first (helm template ...)" if _TEMPLATE.search(text) else ""
        raise NotReadable(f"{name}{where}: {error.problem or error.context}{hint}") from error
    except yaml.YAMLError as error:
        raise NotReadable(f"{name}: {' '.join(str(error).split())[:300]}") from error
    except (RecursionError, ValueError, TypeError) as error:
        raise NotReadable(
            f"{name}: it holds itself, is nested too deeply, or has what JSON has not ({error})"
        ) from error


def _measure(node: yaml.Node, name: str) -> None:
    """Values with aliases written out. Raises NotReadable for too many, and for one that holds itself."""
    sizes: dict[int, int] = {}
    open_: set[int] = set()

    def size(one: yaml.Node, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise NotReadable(f"{name}: it is nested deeper than {MAX_DEPTH}")
        if isinstance(one, yaml.ScalarNode):
            return 1
        if id(one) in open_:
            raise NotReadable(f"{name} line {one.start_mark.line + 1}: an anchor holds itself")
        if id(one) not in sizes:
            open_.add(id(one))
            inner = [part for pair in one.value for part in (pair if isinstance(pair, tuple) else (pair,))]
            sizes[id(one)] = 1 + sum(size(part, depth + 1) for part in inner)
            open_.discard(id(one))
        if sizes[id(one)] > MAX_NODES:
            raise NotReadable(f"{name}: with its aliases written out it has more than {MAX_NODES} values")
        return sizes[id(one)]

    size(node, 0)


def write(documents: list[Document]) -> str:
    """All of them; those that were changed as they are now, without their comments."""
    out: list[str] = []
    for index, document in enumerate(documents):
        if not document.changed:
            out.append(document.text)
            continue
        begin = "---\n" if document.text.startswith("---") or index else ""
        out.append(begin + as_yaml(document.value))
    text = ""
    for part in out:
        if text and not text.endswith("\n"):
            text += "\n"
        text += part
    return text


def as_yaml(value: Any) -> str:
    """One document."""
    return str(
        yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=10_000, default_flow_style=False)
    )
