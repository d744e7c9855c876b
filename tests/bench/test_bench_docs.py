"""docs/bench.md is held against the program."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from typer.main import get_command

from rankmuster.bench.profile_file import read_profile
from rankmuster.bench.profiles import built_in
from rankmuster.cli.bench import app
from rankmuster.cli.bench_output import BenchFormat, BenchStatus
from rankmuster.model.benchmark import BenchmarkRun, Operation, RunState
from rankmuster.model.plain_json import keys

PAGE = (Path(__file__).parents[2] / "docs" / "bench.md").read_text(encoding="utf-8")
OWN = ("run", "read", "profiles", "profile")


COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def options(names: Iterable[str] = OWN) -> list[tuple[str, str]]:
    return [
        (name, option)
        for name in names
        for parameter in COMMANDS[name].params
        for option in (*parameter.opts, *parameter.secondary_opts)
        if option.startswith("-")
    ]


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_is_there(command: str, option: str) -> None:
    assert re.search(rf"`{option}`", PAGE), f"{command} {option}"


def test_no_option_is_there_that_does_not_exist() -> None:
    known = {option for _, option in options(COMMANDS)} | {"--tag-output", "--label"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= known


def test_states_statuses_formats_and_fields_are_there() -> None:
    for state in RunState:
        assert f"| `{state.value}` |" in PAGE
    for status in BenchStatus:
        assert f"| {status.value} |" in PAGE
    for form in BenchFormat:
        assert f"`{form.value}`" in PAGE
    for operation in Operation:
        assert f"`{operation.value}`" in PAGE
    for name in keys(BenchmarkRun):
        assert f"`{name}`" in PAGE


def test_every_profile_is_there_and_the_example_is_one() -> None:
    for profile in built_in():
        assert f"| `{profile.name}` |" in PAGE
    example = re.search(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert example is not None
    assert read_profile(example[1].encode(), "docs").ranks == 4
