"""A systemd unit: what its `Environment=` lines set (systemd.exec(5)). Nothing is executed, no other file is opened."""

from __future__ import annotations

import re
import shlex

from rankmuster.environment.given import Given, communication, engine_of, ray_of, sifted

_SECTION = re.compile(r"^\s*\[(?:Unit|Service|Install|Slice|Scope)\]\s*$", re.MULTILINE)
_SETTING = re.compile(r"^\s*(Environment|EnvironmentFile|PassEnvironment|ExecStart)\s*=\s*(.*?)\s*$")
_CONTINUED = re.compile(r"\\\n")
_SPECIFIER = re.compile(r"(?<!%)(?:%%)*%(?!%)")
"""`%h`, `%i` and others become something only where the unit runs; `%%` is a percent sign."""


def looks_like_unit(text: str) -> bool:
    """Whether a line opens a section of a unit."""
    return _SECTION.search(text) is not None


def read_unit(text: str, name: str) -> Given:
    """The last assignment of a variable counts; an empty `Environment=` takes back all before it."""
    values: dict[str, str] = {}
    unknown: set[str] = set()
    odd: list[str] = []
    command = ""
    for line in _CONTINUED.sub(" ", text).splitlines():
        found = _SETTING.match(line)
        if found is None:
            continue
        key, rest = found.groups()
        if key == "ExecStart":
            command = rest or command
        elif key == "EnvironmentFile" and rest:
            odd.append("an EnvironmentFile sets more, which is not read here; give it with a --file of its own")
        elif key == "PassEnvironment":
            unknown.update(rest.split())
        elif key == "Environment":
            _assign(rest, values, unknown, odd)
    return Given(
        name,
        sifted(values),
        frozenset(sifted(dict.fromkeys(unknown - values.keys(), "?"))),
        tuple(dict.fromkeys(odd)),
        engine=engine_of(command),
        ray=ray_of(command, values),
        communication=communication(values),
    )


def _assign(rest: str, values: dict[str, str], unknown: set[str], odd: list[str]) -> None:
    if not rest:
        values.clear()
        unknown.clear()
        return
    try:
        words = shlex.split(rest)
    except ValueError:
        odd.append("an Environment= line has a quote without its end, and was left out")
        return
    for word in words:
        variable, equals, value = word.partition("=")
        if not equals:
            continue
        if _SPECIFIER.search(value):
            unknown.add(variable)
            values.pop(variable, None)
        else:
            unknown.discard(variable)
            values[variable] = value.replace("%%", "%")
