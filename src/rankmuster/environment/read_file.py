"""A file that sets variables, told by its content: a specification (YAML, JSON), a unit, shell, .env, environ."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Any

import yaml

from rankmuster.environment.config_maps import config_maps
from rankmuster.environment.given import Given, Unreadable, communication, sifted
from rankmuster.environment.read_manifest import environments, looks_like_manifest
from rankmuster.environment.read_process import parse_environ
from rankmuster.environment.read_shell import looks_like_shell, read_shell
from rankmuster.environment.read_unit import looks_like_unit, read_unit

MAX_BYTES = 4 << 20
"""Of one file: Kubernetes takes objects of at most 1.5 MiB (etcd's limit)."""
MAX_DOCUMENTS = 1000
"""Of one file: a whole namespace's workloads and their ConfigMaps are some hundred."""
MAX_MERGED = 20
"""Mappings merged into one by `<<`, and ..."""
MAX_PAIRS = 10_000
"""... pairs in one mapping after that: merges of merges make gigabytes of a kilobyte."""

_Safe: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster where libyaml is there


class _Loader(_Safe):  # type: ignore[misc]  # one of two classes
    """The safe loader, with a bound on merges."""

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        for key, value in node.value:
            merged = key.tag == "tag:yaml.org,2002:merge" and isinstance(value, yaml.SequenceNode)
            if merged and len(value.value) > MAX_MERGED:
                raise yaml.constructor.ConstructorError(problem=f"more than {MAX_MERGED} mappings merged into one")
        super().flatten_mapping(node)
        if len(node.value) > MAX_PAIRS:
            raise yaml.constructor.ConstructorError(problem=f"more than {MAX_PAIRS} pairs in one mapping")


def read_file(path: Path) -> tuple[Given, ...]:
    """Every environment in the file, in its order; at least one.

    Raises Unreadable: no such file, no permission, no regular file, too large, of no known form, or without variables.
    """
    return read_bytes(bytes_of(path), str(path))


def read_bytes(data: bytes, name: str) -> tuple[Given, ...]:
    """The same for bytes; `name`: what the file is called in messages."""
    if not data.strip():
        raise Unreadable(f"{name} is empty")
    if b"\0" in data:
        values = parse_environ(data)
        if not values:
            raise Unreadable(f"{name} holds binary data, and no NAME=value in it; give a copy of /proc/PID/environ")
        return (Given(name, sifted(values), communication=communication(values)),)
    text = data.decode("utf-8-sig", "backslashreplace")
    if looks_like_unit(text):
        return (read_unit(text, name),)
    if looks_like_shell(text):
        return (read_shell(text, name),)
    documents, damage = documents_of(text)
    maps = config_maps(documents)
    found = [given for document in documents for given in environments(document, name, maps)]
    if found:
        return tuple(found)
    if damage:
        hint = "; it is a template: give what `helm template` makes of it" if "{{" in text else ""
        raise Unreadable(f"{name} is neither shell nor sound YAML or JSON: {damage}{hint}")
    if any(looks_like_manifest(document) for document in documents):
        raise Unreadable(f"{name} has no container in it, so nothing sets a variable")
    raise Unreadable(
        f"{name} sets no variable in a form that is known: shell or .env (NAME=value), a pod's or workload's "
        "specification, docker-compose, or what `rankmuster env print` writes"
    )


def bytes_of(path: Path) -> bytes:
    try:
        # not blocking: whoever opens a FIFO would wait for its writer for ever
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise Unreadable(f"{path} is no regular file; save what it says to a file first")
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Unreadable(f"cannot read {path}: {error.strerror or error}") from error
    except ValueError as error:
        raise Unreadable(f"cannot read {str(path)[:60]!r}: {error}") from error
    if len(data) > MAX_BYTES:
        raise Unreadable(f"{path} is larger than {MAX_BYTES >> 20} MiB, which no specification is")
    return data


def documents_of(text: str, *, exactly: bool = False) -> tuple[list[Any], str]:
    """Sound documents, and what stopped the reading. JSON is YAML as well, save for tabs, which are then tried as
    blanks; not where it is to be read `exactly`."""
    found, damage = _loaded(text)
    if damage and "\t" in text and not exactly:
        return _loaded(text.replace("\t", "  "))
    return found, damage


def _loaded(text: str) -> tuple[list[Any], str]:
    found: list[Any] = []
    try:
        for document in yaml.load_all(text, Loader=_Loader):  # a safe loader it is
            found.append(document)
            if len(found) >= MAX_DOCUMENTS:
                return found, f"more than {MAX_DOCUMENTS} documents"
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" at line {mark.line + 1}" if mark is not None else ""
        # never the text itself, which may hold a secret
        return found, f"{getattr(error, 'problem', None) or type(error).__name__}{where}"
    except (RecursionError, ValueError, TypeError, OverflowError) as error:  # nested too deep, absurd dates and numbers
        return found, f"{type(error).__name__} in it"
    return found, ""
