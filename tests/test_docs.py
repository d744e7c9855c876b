"""The documents are held against the program: what is not documented, or no longer true, fails here."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command
from typer.testing import CliRunner

from rankmuster.cli.collect import DEADLINE_SECONDS, CollectStatus
from rankmuster.cli.diagnose import Format
from rankmuster.cli.main import whole_app
from rankmuster.cli.status import ExitStatus
from rankmuster.collect.outcome import Ending
from rankmuster.collect.ras.hazards import HAZARDS
from rankmuster.collect.registry import tasks
from rankmuster.collect.sink import Store
from rankmuster.collect.wishes import LOG_BYTES, LOOK_SECONDS, AddressMode, DumpWish, RasRisk
from rankmuster.drill.faults import FAULTS
from rankmuster.drill.plan import Backend
from rankmuster.environment.check import check
from rankmuster.environment.contradiction import Severity
from rankmuster.environment.read_file import read_file
from rankmuster.evidence import folder, packed_stream, unpack
from rankmuster.model.fault import SUBKINDS, Boundary, Confidence, Phase, Progress, Role, Scope, SuspectKind
from rankmuster.model.plain_json import keys
from rankmuster.model.plane import Plane, PlaneState
from rankmuster.model.verdict import FindingRecord, FirstDivergence, Recovery, Suspect, Verdict, Window

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
VERDICT = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs" / "evidence.md").read_text(encoding="utf-8")
COLLECT = (ROOT / "docs" / "collect.md").read_text(encoding="utf-8")
WHERE = (ROOT / "docs" / "where-to-run.md").read_text(encoding="utf-8")
WATCH = (ROOT / "docs" / "watch.md").read_text(encoding="utf-8")
PAGES = {"collect": COLLECT, "bundle": COLLECT, "watch": WATCH, "top": WATCH} | {
    command: "".join((ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in names)
    for command, names in {
        "env": ("environment",),
        "calibrate": ("environment",),
        "flight": ("flight", "flight-at-scale"),
        "fingerprint": ("fingerprint",),
        "bench": ("bench", "bench-multi-node"),
        "history": ("history",),
        "admit": ("admission",),
        "drift": ("drift",),
        "incident": ("incident",),
        "run": ("run",),
        "drill": ("drill-card",),
        "gate": ("gate",),
        "kube": tuple(path.stem for path in sorted((ROOT / "docs").glob("kubernetes*.md"))),
    }.items()
}
"""The commands that have a page of their own; the README speaks of the options of the others."""


PRINTED = "env print --engine vllm --instance llm-0 --folder /evidence --format yaml"


def all_commands(group: Any, above: tuple[str, ...] = ()) -> dict[str, Any]:
    """Every command by its words: `bundle merge`."""
    found: dict[str, Any] = {}
    for name, command in group.commands.items():
        words = (*above, name)
        found |= all_commands(command, words) if hasattr(command, "commands") else {" ".join(words): command}
    return found


app = whole_app()
COMMANDS = all_commands(get_command(app))


def options() -> list[tuple[str, str]]:
    of_commands = [
        (name, option)
        for name, command in COMMANDS.items()
        for p in command.params
        for option in (*p.opts, *p.secondary_opts)
    ]
    own = [("", option) for parameter in get_command(app).params for option in parameter.opts]
    return [(name, option) for name, option in of_commands + own if option.startswith("-")]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_every_command_is_documented(name: str) -> None:
    assert f"rankmuster {name}" in README + PAGES.get(name.partition(" ")[0], "")
    assert f"rankmuster {name.partition(' ')[0]}" in README


@pytest.mark.parametrize(("command", "option"), options())
def test_every_option_is_documented(command: str, option: str) -> None:
    page = PAGES.get(command.partition(" ")[0], "") + README
    assert re.search(rf"(?<![\w-]){option}(?![\w-])", page)


def test_no_option_is_documented_that_does_not_exist() -> None:
    known = {option for _, option in options()} | {"--help"}
    table = README.split("## Commands")[1].split("### Exit status")[0]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", table)) <= known


def test_no_option_of_collect_is_documented_that_does_not_exist() -> None:
    known = {option for name, option in options() if name.startswith(("collect", "bundle"))}
    table = COLLECT.split("## Options")[1].split("| exit status")[0]
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", table)) <= known


def test_the_collecting_is_documented_as_it_is(tmp_path: Path) -> None:
    names = [task.collector.name for task in tasks(Store(tmp_path))]
    taken = COLLECT.split("## What is taken")[1].split("## Finding")[0]
    assert all(f"`{name}`" in taken for name in names)
    assert set(re.findall(r"^\| ((?:`[a-z-]+`(?:, )?)+) \|", taken, re.MULTILINE)) != set()
    for ending in Ending:
        assert f"| `{ending.value}` |" in COLLECT
    for status in CollectStatus:
        assert f"| {status.value} |" in COLLECT
    for wish in (*RasRisk, *DumpWish, *AddressMode):
        assert f"`{wish.value}`" in COLLECT
    defaults = (int(DEADLINE_SECONDS), int(LOOK_SECONDS), LOG_BYTES >> 20)
    assert all(f"({number})" in COLLECT.split("## Options")[1] for number in defaults)


def test_what_asking_ras_can_do_is_documented_with_its_source() -> None:
    table = COLLECT.split("## RAS by version")[1].split("## The bundle")[0]
    for hazard in HAZARDS:
        assert all(number in table for number in re.findall(r"#\d+", hazard.source))


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
    for name in keys(model):
        assert f"`{name}`" in VERDICT


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
    "document",
    [
        "README.md",
        "CHANGELOG.md",
        "examples/README.md",
        *(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md")),
    ],
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


@pytest.mark.parametrize("line", re.findall(r"rankmuster ((?:collect|bundle|diagnose|env) [^`&)\n]+)", WHERE))
def test_commands_of_the_recipes_are_the_programs(line: str) -> None:
    words = line.split()
    command = words[0] if words[0] in COMMANDS else " ".join(words[:2])
    known = {option for name, option in options() if name == command}
    assert known
    assert {word for word in words if word.startswith("--")} <= known


def test_pods_of_the_recipes_are_sound_and_leave_evidence(tmp_path: Path) -> None:
    assert f"rankmuster {PRINTED}" in WHERE
    printed = CliRunner().invoke(app, PRINTED.split())
    pod, agents = (yaml.safe_load(text) for text in re.findall(r"(?ms)^```yaml\n(.*?)^```", WHERE))
    worker, sidecar = pod["spec"]["containers"]
    own = {variable["name"] for variable in worker["env"]}
    worker["env"] += [one for one in yaml.safe_load(printed.output)["env"] if one["name"] not in own]
    for number, document in enumerate((pod, agents)):
        path = tmp_path / f"{number}.yaml"
        path.write_text(yaml.safe_dump(document), encoding="utf-8")
        assert [one.statement for one in check(read_file(path)).all if one.severity is not Severity.NOTE] == []
        spec = document["spec"].get("template", document)["spec"]
        mounted = {mount["name"] for container in spec["containers"] for mount in container["volumeMounts"]}
        assert mounted == {volume["name"] for volume in spec["volumes"]}
    assert pod["spec"]["shareProcessNamespace"]
    assert sidecar["securityContext"]["capabilities"]["add"] == ["SYS_PTRACE", "SYSLOG"]


@pytest.mark.parametrize("name", [*FAULTS, *(backend.value for backend in Backend)])
def test_every_drill_is_documented(name: str) -> None:
    text = (ROOT / "docs" / "drill.md").read_text(encoding="utf-8")
    assert re.search(rf"`(--backend )?{name}`", text)


def test_the_settings_of_the_watch_in_the_docs_are_all_of_them_with_their_defaults() -> None:
    from rankmuster.watch.config import WatchConfig, read

    blocks = re.findall(r"```yaml\n(.*?)```", WATCH, re.DOTALL)
    shown = yaml.safe_load(blocks[0])
    assert read(blocks[0], "watch.md") == WatchConfig()
    fields = (
        WatchConfig.__dataclass_fields__ if hasattr(WatchConfig, "__dataclass_fields__") else WatchConfig.model_fields
    )
    assert set(shown) == set(fields)
    for part in ("engine", "hardware", "ras", "logs", "on_stop"):
        of_part = type(getattr(WatchConfig(), part))
        names = of_part.__dataclass_fields__ if hasattr(of_part, "__dataclass_fields__") else of_part.model_fields
        assert set(shown[part]) == set(names)
    for block in blocks[1:]:
        read(block, "watch.md")


def test_every_state_and_source_of_the_watch_is_in_the_docs() -> None:
    for state in Progress:
        assert f"| `{state.value}` |" in WATCH
