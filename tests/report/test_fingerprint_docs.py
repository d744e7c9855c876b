"""docs/fingerprint.md is held against the program: its examples, options, names and limits."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
from typer.main import get_command

from rankmuster.baseline.fingerprint.canonical import MOST_WORK
from rankmuster.baseline.fingerprint.rules_nccl import EFFECTS
from rankmuster.baseline.fingerprint.settings import PEER_MATRICES
from rankmuster.cli.fingerprint import DEADLINE_SECONDS, DiffFormat, FingerprintFormat, fingerprint_app
from rankmuster.evidence.fingerprint_document import BESIDE
from rankmuster.evidence.plain_yaml import MOST_BYTES, MOST_DEPTH, MOST_VALUES
from rankmuster.model.node_path import NodePath
from report.fingerprint_examples import EXAMPLES

PAGE = (Path(__file__).parents[2] / "docs" / "fingerprint.md").read_text(encoding="utf-8")
TAKING = PAGE.split("## Taking one")[1].split("## What is in it")[0]
COMPARING = PAGE.split("## What changed")[1]


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_examples_are_what_the_program_prints(name: str) -> None:
    assert EXAMPLES[name]() in PAGE


@pytest.mark.parametrize("part", [TAKING, COMPARING], ids=["taking", "comparing"])
def test_the_options_are_the_programs(part: str) -> None:
    group = get_command(fingerprint_app)
    command = group if part is TAKING else group.commands["diff"]
    known = {option for each in command.params for option in each.opts if option.startswith("--")} - {"--help"}
    named = set(re.findall(r"^\| `(--[a-z-]+)", part, re.MULTILINE))
    assert named == known


def test_every_format_and_the_deadline_are_documented() -> None:
    assert all(f"`{form.value}`" in TAKING for form in FingerprintFormat)
    assert all(f"`{form.value}`" in COMPARING for form in DiffFormat)
    assert f"({DEADLINE_SECONDS:g})" in TAKING


def test_every_part_of_the_file_is_documented() -> None:
    table = PAGE.split("| under `madeFrom` |")[1].split("\n\n")[0]
    own = {one.name for one in fields(NodePath)} - {"host", "taken_at"}
    assert set(re.findall(r"`(\w+)`", table.replace("`sys` or `matrix`", ""))) >= own | {"topology_source"}
    assert all(name in PAGE for name in BESIDE)
    assert all(f"`{name}`" in PAGE for name in PEER_MATRICES.values())


def test_every_variable_with_words_of_its_own_is_documented() -> None:
    assert set(re.findall(r"`NCCL_(\w+)`", COMPARING.rpartition("words of their own")[2])) == set(EFFECTS)


def test_the_limits_are_the_programs() -> None:
    assert f"{MOST_BYTES >> 20} MiB, {MOST_DEPTH} levels, {MOST_VALUES:,} values" in PAGE
    assert f"{MOST_WORK:,} steps" in PAGE
