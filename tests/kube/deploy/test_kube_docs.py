"""What docs/kubernetes*.md say is what there is."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml
from kube_manifests import OVERLAYS, PLACE, ROOT
from typer.main import get_command

from rankmuster.cli.main import whole_app
from rankmuster.drill import pod_rank
from rankmuster.kube.controller.settings import ControllerSettings, read
from rankmuster.kube.rbac import PARTS

GUIDE = (ROOT / "docs" / "kubernetes.md").read_text(encoding="utf-8")
GITOPS = (ROOT / "docs" / "kubernetes-gitops.md").read_text(encoding="utf-8")
TEXT = GUIDE + GITOPS
MANIFESTS = "".join(path.read_text(encoding="utf-8") for path in sorted(PLACE.rglob("*.yaml")))


def test_all_settings_of_the_controller_are_there_with_their_defaults() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", GUIDE.split("## Settings")[1].split("## Monitoring")[0], re.DOTALL)
    assert set(yaml.safe_load(block)) == set(ControllerSettings.__dataclass_fields__)
    assert read(block, "kubernetes.md") == ControllerSettings()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_overlay_is_described(overlay: str) -> None:
    assert f"| `{overlay}` |" in GUIDE


def test_yaml_of_the_guides_can_be_read() -> None:
    for block in re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL):
        assert list(yaml.safe_load_all(block))


def test_files_and_folders_that_are_named_are_there() -> None:
    for path in re.findall(r"\bdeploy/(?:kubernetes|images|grafana|prometheus)[\w./-]*\w", TEXT):
        assert (ROOT / path).exists(), path
    for part in re.findall(r"`rbac/([\w-]+)`", TEXT):
        assert part in {one.value for one in PARTS}


@pytest.mark.parametrize("line", sorted(set(re.findall(r"(?m)rankmuster (kube [a-z-]+[^`|&#\n]*)", TEXT + MANIFESTS))))
def test_commands_are_the_programs(line: str) -> None:
    kube: Any = get_command(whole_app()).commands["kube"]  # type: ignore[attr-defined]
    words = line.split()
    assert words[1] in kube.commands
    known = {
        option
        for parameter in kube.commands[words[1]].params
        for option in (*parameter.opts, *parameter.secondary_opts)
    }
    assert {word for word in words if word.startswith("--")} <= known


@pytest.mark.parametrize("word", sorted(set(re.findall(r"`(\w+)`: ", pod_rank.__doc__ or ""))))
def test_every_fault_of_the_drill_is_told(word: str) -> None:
    assert f"`{word}`" in GUIDE or f"echo {word} >" in GUIDE
