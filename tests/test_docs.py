"""The documents are held against the program: what is not documented, or no longer true, fails here."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from typer.main import get_command

from rankmuster.cli.diagnose import Format
from rankmuster.cli.main import app
from rankmuster.cli.status import ExitStatus
from rankmuster.evidence import folder, packed_stream, unpack
from rankmuster.model.fault import SUBKINDS, Boundary, Confidence, Phase, Progress, Role, Scope, SuspectKind
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.verdict import FindingRecord, FirstDivergence, Recovery, Suspect, Verdict, Window

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERDICT = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
COMMANDS = get_command(app).commands  # type: ignore[attr-defined]


def options() -> list[tuple[str, str]]:
    of_commands = [(name, option) for name, command in COMMANDS.items() for p in command.params for option in p.opts]
    own = [("", option) for parameter in get_command(app).params for option in parameter.opts]
    return [(name, option) for name, option in of_commands + own if option.startswith("-")]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert f"rankmuster {name}" in README


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_is_documented(command: str, option: str) -> None:
    assert re.search(rf"(?<![\w-]){option}(?![\w-])", README)


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {option for _, option in options()} | {"--help"}
    table = README.split("## Commands")[1].split("### Exit status")[0]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", table)) <= known


@pytest.mark.parametrize("form", list(Format))
def test_every_format_is_documented(form: Format) -> None:
    assert f"`--format {form.value}`" in README


@pytest.mark.parametrize("status", list(ExitStatus))
def test_every_exit_status_is_documented(status: ExitStatus) -> None:
    assert f"| {status.value} |" in README
    assert re.search(rf"\b{status.value} ", VERDICT.split("## Exit status")[1])


@pytest.mark.parametrize("name", [name.value for subs in SUBKINDS.items() for name in (subs[0], *subs[1])])
def test_every_class_and_sub_kind_is_documented(name: str) -> None:
    assert f"`{name}`" in VERDICT


@pytest.mark.parametrize("kind", [Progress, Confidence, Boundary, Role, PlaneState, Scope, Phase, SuspectKind])
def test_every_word_of_a_verdict_is_documented(kind: type) -> None:
    for member in kind:  # type: ignore[attr-defined]
        assert f"`{member.value}`" in VERDICT


@pytest.mark.parametrize("model", [Verdict, Window, Suspect, FirstDivergence, FindingRecord, Recovery])
def test_every_field_of_a_verdict_is_documented(model: type) -> None:
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]
        assert f"`{field.alias or name}`" in VERDICT


@pytest.mark.parametrize("plane", list(Plane))
def test_every_plane_is_documented(plane: Plane) -> None:
    assert f"| `{plane.value}` |" in README
    assert f"| `{plane.value}` |" in EVIDENCE


def test_the_documented_limits_are_the_programs() -> None:
    limits = EVIDENCE.split("## Limits")[1]
    assert f"{folder.MAX_FILE_BYTES // 2**20} MiB" in limits
    assert f"{folder.MAX_FILES:,}" in limits
    assert f"{packed_stream.MAX_TOTAL_BYTES // 2**30} GiB, {packed_stream.MAX_MEMBERS:,} members" in limits
    assert f"{unpack.MAX_DEPTH} deep" in limits


@pytest.mark.parametrize(
    "document", ["README.md", "CHANGELOG.md", "docs/verdict.md", "docs/evidence.md", "examples/README.md"]
)
def test_links_lead_somewhere(document: str) -> None:
    path = ROOT / document
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


@pytest.mark.parametrize("target", re.findall(r"`?make ([a-z]+)", README))
def test_documented_make_targets_exist(target: str) -> None:
    assert re.search(rf"^{target}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)


def test_the_picture_is_sound_and_has_words_for_those_who_cannot_see_it() -> None:
    root = ElementTree.parse(ROOT / "docs" / "flow.svg").getroot()
    assert {child.tag.rpartition("}")[2] for child in root} >= {"title", "desc"}


@pytest.mark.parametrize("name", [path.name for path in sorted((ROOT / "examples").iterdir()) if path.is_dir()])
def test_every_example_is_described(name: str) -> None:
    assert f"`{name}`" in (ROOT / "examples" / "README.md").read_text(encoding="utf-8")
