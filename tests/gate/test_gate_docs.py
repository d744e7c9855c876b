"""docs/gate.md says what the program does."""

from __future__ import annotations

import re
from pathlib import Path

from rankmuster.cli.gate_rollback import Format
from rankmuster.gate.canary import LEAST_LOOKS, TOLERANCE
from rankmuster.gate.config import GateConfig
from rankmuster.gate.config_read import read
from rankmuster.gate.items.benchmarks import NEAR
from rankmuster.gate.items.runbook import LONGEST_STOP
from rankmuster.gate.waivers import LONGEST_DAYS, NEVER
from rankmuster.model.plain_json import keys
from rankmuster.model.release import Item

PAGE = (Path(__file__).parents[2] / "docs" / "gate.md").read_text(encoding="utf-8")


def test_the_settings_it_shows_are_taken():
    (example,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    assert read(example, "gate.yaml").waivers[0].item is Item.RECORDER_DRILL


def test_every_key_and_every_item_stands_in_it():
    for key in keys(GateConfig):
        assert re.search(rf"\b{key}\b", PAGE), key
    assert re.findall(r"^\| `([a-z_]+)` \|", PAGE.split("## The checklist")[1], re.MULTILINE)[: len(Item)] == [
        one.value for one in Item
    ]
    for form in Format:
        assert f"| `{form.value}` |" in PAGE


def test_its_numbers_are_the_programs():
    assert f"within a factor of {NEAR}" in PAGE
    assert f"at most {LONGEST_DAYS:.0f} days ahead" in PAGE
    assert f"for {LONGEST_STOP:.0f} s at most" in PAGE
    assert f"{LEAST_LOOKS} looks on each side" in PAGE
    assert f"wholly below {1 - TOLERANCE:.2f}" in PAGE
    for item in NEVER:
        assert f"`{item.value}`" in PAGE.split("**Waivers**")[1].split("\n\n")[0]
