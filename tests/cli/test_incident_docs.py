"""docs/incident.md is held against the program: the budget, every setting, every word."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from incident_story import ID, recovered
from rankmuster.cli.main import whole_app
from rankmuster.incident import config as settings
from rankmuster.incident.budget import CRITICAL, DEFAULT_SECONDS, Budget
from rankmuster.incident.config_read import APPROVABLE, ROLES, read
from rankmuster.incident.limits import Limits
from rankmuster.model.fault import Boundary
from rankmuster.model.incident import Ending, Outcome, Step
from rankmuster.report.incident_account import account
from rankmuster.report.incident_json import incident_plain
from rankmuster.report.incident_nodes import NodeState
from rankmuster.report.incident_standing import TrafficNow
from rankmuster.report.incident_words import MEANINGS

PAGE = (Path(__file__).parents[2] / "docs" / "incident.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
WHOLE = next(block for block in BLOCKS if block.startswith("journal:"))
INSTANCES = next(block for block in BLOCKS if "llm-2:" in block)

KINDS = [
    *(settings.HaproxyTraffic, settings.SglangTraffic, settings.VllmTraffic, settings.WebhookTraffic),
    *(settings.SupervisorGroup, settings.SlurmGroup, settings.CommandGroup),
    *(settings.SlurmNode, settings.DenyFile, settings.WebhookNode),
    *(settings.AdmitRetest, settings.CollectEvidence, settings.HttpProbe),
]


def section(title: str) -> str:
    return PAGE.split(f"\n## {title}\n")[1].split("\n## ")[0]


def test_the_budget_is_that_of_the_code_and_adds_up() -> None:
    rows = dict(re.findall(r"^\| `([a-z_]+)` \|[^|]*\| (\d+) \|", section("The runbook"), re.MULTILINE))
    assert {Step(name): float(seconds) for name, seconds in rows.items()} == dict(DEFAULT_SECONDS)
    assert [Step(name) for name in rows] == list(Step)
    told = re.search(r"is back is (.*?): \*\*(\d+) s\*\*", section("The runbook"), re.DOTALL)
    assert told is not None
    way = [Step(name) for name in re.findall(r"`([a-z_]+)`", told[1]) if name != "drain"]
    assert tuple(way) == CRITICAL
    assert sum(float(rows[step.value]) for step in way) == float(told[2]) == Budget().total == Budget().longest_way
    assert f"it is {Budget().until_terminated:g} s at most" in PAGE
    assert f"within {DEFAULT_SECONDS[Step.APPROVE]:g} s" in PAGE


def test_the_settings_shown_are_all_of_them_with_their_defaults() -> None:
    assert read(WHOLE, "incident.md") == settings.IncidentConfig()
    shown = yaml.safe_load(WHOLE)
    assert set(shown) == {field.name for field in fields(settings.IncidentConfig)}
    assert set(shown["limits"]) == {field.name for field in fields(Limits)}
    assert set(shown["slow"]) == {field.name for field in fields(settings.Slow)}


@pytest.mark.parametrize("block", BLOCKS)
def test_every_block_of_settings_is_accepted(block: str) -> None:
    read(block, "incident.md")


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_key_of_every_actuator_is_shown(kind: Any) -> None:
    name = next(field.default for field in fields(kind) if field.name == "kind")
    parts = [part for part in _parts(yaml.safe_load(INSTANCES)) if part.get("kind") == name]
    assert parts
    shown = set().union(*(set(part) for part in parts))
    assert {field.name for field in fields(kind)} - shown <= {"header_file"}, name
    assert "header_file" in PAGE


@pytest.mark.parametrize("line", re.findall(r"^rankmuster ([^#\n]+)", PAGE, re.MULTILINE))
def test_commands_shown_are_the_programs(line: str) -> None:
    words = line.partition(" -- ")[0].split()
    command: Any = get_command(whole_app())
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]
    known = {option for parameter in command.params for option in (*parameter.opts, *parameter.secondary_opts)}
    assert {word for word in words if word.startswith("--")} <= known


def test_every_key_of_an_instance_and_of_a_row_is_shown() -> None:
    shown = yaml.safe_load(INSTANCES)["instances"]["llm-0"]
    assert set(shown) == {field.name for field in fields(settings.InstanceConfig)}
    for field in fields(settings.RecoveryRow):
        assert re.search(rf"\b{field.name.removesuffix('_')}:", section("What is rebuilt")) or field.name == "progress"


def _parts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        return [value, *(part for one in value.values() for part in _parts(one))]
    return [part for one in value for part in _parts(one)] if isinstance(value, list) else []


def test_limits_are_documented_with_their_defaults() -> None:
    table = section("Limits and the circuit breaker")
    for field in fields(Limits):
        row = next(
            line for line in table.splitlines() if line.startswith("|") and f"`{field.name}`" in line.split("|")[1]
        )
        assert row.split("|")[2].strip() == f"{field.default:g}"


def test_the_words_are_all_there() -> None:
    for outcome in Outcome:
        assert f"| `{outcome.value}` | {MEANINGS[outcome]} |" in PAGE
    for ending in Ending:
        assert f"`{ending.value}`" in section("Commands")
    for boundary in Boundary:
        assert f"| `{boundary.value}` |" in section("What is rebuilt")
    for role in ROLES:
        assert f"`{role}`" in section("Observe, enable, approve")
    told = re.search(r"waited for: (.*?)\.\s+Beside", section("Observe, enable, approve"), re.DOTALL)
    assert told is not None
    assert re.findall(r"`([a-z_]+)`", told[1]) == [step.value for step in APPROVABLE]


def test_the_schema_is_documented() -> None:
    text = section("JSON")
    story = recovered()
    plain = incident_plain(account(ID, story.events), now=story.at)
    names = {*plain, *plain["impact"], *plain["events"][0], *plain["evidence"][0], *plain["nodes"][0]}
    names |= {*plain["steps"][0], *plain["steps"][0]["actions"][0]}
    for name in names:
        assert f"`{name}`" in text, name
    for state in NodeState:
        assert f"`{state.name.lower()}`" in text
    for traffic in TrafficNow:
        assert f"`{traffic.value}`" in text
