"""docs/bench-multi-node.md is held against the program."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.main import get_command

from rankmuster.baseline.pairs import TOLERANCE
from rankmuster.bench.launch.pairs import PROFILE
from rankmuster.cli import bench_nodes, bench_pairs
from rankmuster.cli.bench_launch_options import LauncherName
from rankmuster.cli.bench_nodes import nodes
from rankmuster.cli.bench_pairs import PairsStatus, pairs

PAGE = (Path(__file__).parents[2] / "docs" / "bench-multi-node.md").read_text(encoding="utf-8")


def command(function: Any) -> Any:
    app = typer.Typer(add_completion=False)
    app.command()(function)
    return get_command(app)


COMMANDS = {"pairs": command(pairs), "nodes": command(nodes)}
OPTIONS = {
    option
    for one in COMMANDS.values()
    for parameter in one.params
    for option in (*parameter.opts, *parameter.secondary_opts)
}
OTHERS = {"--gpus-per-node", "--partition", "--nodes", "--mpi", "--output", "--wait", "--mca"}
"""Options of srun, sbatch, salloc and mpirun that the page has."""


@pytest.mark.parametrize("option", sorted(option for option in OPTIONS if option != "--debug"))
def test_every_option_is_there(option: str) -> None:
    assert re.search(rf"{option}(?![\w-])", PAGE)


def test_no_option_is_there_that_does_not_exist() -> None:
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", PAGE)) <= OPTIONS | OTHERS | {"--tool"}


def test_launchers_statuses_and_numbers_are_those_of_the_program() -> None:
    for name in LauncherName:
        assert f"`{name.value}`" in PAGE or f"`--launcher {name.value}`" in PAGE
    for status in PairsStatus:
        assert re.search(rf"\b{status.value} ", PAGE.split("Exit status of `bench pairs`")[1])
    assert f"({TOLERANCE:.2f})" in PAGE
    assert f"({bench_pairs.TIME_LIMIT_SECONDS:.0f})" in PAGE
    assert f"({bench_nodes.TIME_LIMIT_SECONDS:.0f})" in PAGE
    assert f"(from {bench_pairs.FIRST_PORT})" in PAGE
    assert [size >> 20 for size in PROFILE.steps[0].sizes] == [256, 1024]
    assert "256 MiB and 1 GiB" in PAGE


def lines() -> list[str]:
    text = PAGE.replace("\\\n", " ")
    return [
        line.strip().partition(" > ")[0] for line in text.splitlines() if line.strip().startswith("rankmuster bench")
    ]


@pytest.mark.parametrize("line", lines())
def test_every_command_of_the_page_is_one(line: str) -> None:
    words = shlex.split(line)
    COMMANDS[words[2]].make_context("bench", words[3:])
