"""docs/environment.md is held against the program: its examples are run, its options and words must exist."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from rankmuster.cli.calibrate import calibrate
from rankmuster.cli.env import env_app
from rankmuster.environment import place
from rankmuster.environment.calibrated import Grounds
from rankmuster.environment.check import check
from rankmuster.environment.contradiction import Severity
from rankmuster.environment.draft import ProfileName
from rankmuster.environment.given import Given
from rankmuster.environment.recorder_settings import BUFFERS
from rankmuster.environment.table import TABLE
from rankmuster.environment.variable import Engine
from rankmuster.environment.version import NEWEST_NCCL, NEWEST_TORCH, OLDEST_NCCL, OLDEST_TORCH, written

ROOT = Path(__file__).parents[2]
DOCUMENT = (ROOT / "docs" / "environment.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"(?ms)^## `rankmuster ([\w ]+)`\n(.*?)(?=^## |\Z)", DOCUMENT))


def app() -> typer.Typer:
    made = typer.Typer()
    made.add_typer(env_app, name="env")
    made.command("calibrate")(calibrate)
    return made


COMMANDS = {
    "env print": get_command(env_app).commands["print"],  # type: ignore[attr-defined]
    "env check": get_command(env_app).commands["check"],  # type: ignore[attr-defined]
    "calibrate": get_command(app()).commands["calibrate"],  # type: ignore[attr-defined]
}
EXAMPLES = re.findall(r"(?ms)^```console\n(.*?)^```", DOCUMENT)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "110")
    shutil.copy(ROOT / "tests" / "cases" / "healthy-tp4" / "input.tar.zst", tmp_path / "healthy")
    last = [0]

    def run(line: str) -> str:
        if line == "echo $?":
            return f"{last[0]}\n"
        if line.startswith("cat "):
            return ""  # the file is made from what the example shows
        assert line.startswith("rankmuster ")
        last[0] = int(get_command(app()).main(args=shlex.split(line)[1:], standalone_mode=False) or 0)
        return capsys.readouterr().out

    return run


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda text: text.split("\n")[0][2:50])
def test_examples_show_what_the_program_prints(example: str, run: Callable[[str], str], tmp_path: Path) -> None:
    for line, shown in re.findall(r"(?m)^\$ (.*)\n((?:(?!\$ ).*\n)*)", example):
        if line.startswith("cat "):
            (tmp_path / line.split()[1]).write_text(shown)
        printed = run(line).splitlines()
        if line.startswith("cat "):
            continue
        rest = iter(printed)
        for wanted in shown.splitlines():
            assert any(wanted == got for got in rest), f"{wanted!r} is not printed, or not there:\n" + "\n".join(
                printed
            )


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_option_is_documented_and_none_else(command: str) -> None:
    known = {option for parameter in COMMANDS[command].params for option in parameter.opts if option.startswith("--")}
    table = "".join(re.findall(r"(?m)^\| (`--[^|]*)\|", SECTIONS[command]))
    documented = set(re.findall(r"--[a-z]+", table))
    assert documented == known - {"--debug", "--help"}


def codes() -> set[str]:
    """Every code that any rule gives."""
    found = set()
    for path in (ROOT / "src" / "rankmuster" / "environment").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "Contradiction":
                code = node.args[1]
                assert isinstance(code, ast.Constant)
                found.add(code.value)
    return found


def test_every_contradiction_is_documented_and_none_else() -> None:
    table = DOCUMENT.split("### Contradictions")[1].split("## `rankmuster calibrate`")[0]
    assert set(re.findall(r"`(\w+)`", table)) == codes()


@pytest.mark.parametrize("kind", [ProfileName, Engine, Severity, Grounds])
def test_every_word_is_documented(kind: type) -> None:
    for member in kind:  # type: ignore[attr-defined]
        assert f"`{member.value}`" in DOCUMENT


def test_every_field_of_the_answers_is_documented(run: Callable[[str], str], tmp_path: Path) -> None:
    (tmp_path / "x").write_text("NCCL_DEBUG=TRACE\n")
    for line in (
        "rankmuster env print --format json",
        "rankmuster env check --file x --format json",
        "rankmuster calibrate healthy --format json",
    ):
        answer = json.loads(run(line))
        for key, value in answer.items():
            assert f"`{key}`" in DOCUMENT or key == "schema"
            for inner in value[0] if isinstance(value, list) and value and isinstance(value[0], dict) else ():
                assert f"`{inner}`" in DOCUMENT
        assert f"`{answer['schema']}`" in DOCUMENT


def test_the_documented_numbers_are_the_programs() -> None:
    assert f"torch {written(OLDEST_TORCH)} to {written(NEWEST_TORCH)}" in DOCUMENT
    assert f"NCCL {written(OLDEST_NCCL)} to {written(NEWEST_NCCL)}" in DOCUMENT
    assert f"{place.FIRST_PORT} to {place.FIRST_PORT + place.PORTS - 1}" in DOCUMENT
    assert "| ring, entries | " + " | ".join(str(size) for size in BUFFERS.values()) + " |" in DOCUMENT


@pytest.mark.parametrize("name", re.findall(r"`((?:TORCH|NCCL)_[A-Z0-9_]{3,})`", DOCUMENT))
def test_variables_of_the_document_are_known(name: str) -> None:
    assert name in TABLE


def test_a_bare_environment_says_what_a_dump_would_hold() -> None:
    (answer,) = check([Given("x", {})], (2, 13), (2, 28, 9)).checked
    assert answer.nothing_set
    assert "collectives" in answer.dump
