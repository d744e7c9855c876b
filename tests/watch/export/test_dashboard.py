"""The dashboard: every panel explains itself and asks for metrics and labels that the exporter really has."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql_words import asked

from rankmuster.metrics.declared import Kind, Metric
from rankmuster.metrics.registry import FOLDED
from rankmuster.watch.export.metrics import ALL

PATH = Path(__file__).parents[3] / "deploy" / "grafana" / "rankmuster.json"
BOARD: dict[str, Any] = json.loads(PATH.read_text(encoding="utf-8"))
PANELS = [panel for panel in BOARD["panels"] if panel["type"] != "row"]
TARGET_LABELS = {"instance", "job"}


def series() -> dict[str, tuple[Metric, set[str]]]:
    """Every name that a page of the exporter can have, with its labels."""
    found = {}
    for metric in (*ALL, FOLDED):
        labels = {label.name for label in metric.labels}
        if metric.kind is Kind.HISTOGRAM:
            found[f"{metric.name}_bucket"] = (metric, labels | {"le"})
            found[f"{metric.name}_sum"] = found[f"{metric.name}_count"] = (metric, labels)
        else:
            found[metric.name] = (metric, labels)
    return found


def expressions() -> Iterator[tuple[str, str]]:
    for panel in PANELS:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for annotation in BOARD["annotations"]["list"]:
        if "expr" in annotation:
            yield annotation["name"], annotation["expr"]


EXPRESSIONS = list(expressions())


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_panel_has_a_title_a_description_and_a_unit(panel: dict[str, Any]) -> None:
    assert panel["title"]
    assert len(panel["description"].split()) >= 4
    assert panel["fieldConfig"]["defaults"]["unit"]
    assert panel["datasource"] == {"type": "prometheus", "uid": "${datasource}"}
    assert [target["refId"] for target in panel["targets"]] == list("ABCDEFG"[: len(panel["targets"])])
    assert all(target["datasource"] == panel["datasource"] for target in panel["targets"])


@pytest.mark.parametrize(("title", "expression"), EXPRESSIONS)
def test_an_expression_asks_for_what_there_is(title: str, expression: str) -> None:
    known = series()
    wanted = asked(re.sub(r"\[\$__rate_interval\]", "[1m]", expression))
    assert wanted.metrics
    for name, matchers in wanted.metrics.items():
        assert name in known, f"{title}: {name}"
        metric, labels = known[name]
        values = {label.name: label.values for label in metric.labels}
        for label, operator, value in matchers:
            assert label in labels, f"{title}: {name} has no label {label}"
            if values[label] and "$" not in value:
                wishes = value.split("|") if operator in ("=~", "!~") else [value]
                assert set(wishes) <= set(values[label]), f"{title}: {label} is never {value}"
    assert wanted.grouped <= set().union(*(known[name][1] for name in wanted.metrics)) | TARGET_LABELS, title


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel["title"])
def test_a_legend_names_labels_that_are_left(panel: dict[str, Any]) -> None:
    known = series()
    for target in panel["targets"]:
        wanted = asked(target["expr"])
        labels = set().union(*(known[name][1] for name in wanted.metrics)) | TARGET_LABELS
        assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= (wanted.grouped or labels)


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is in Debian's package prometheus")
def test_prometheus_can_parse_every_expression(tmp_path: Path) -> None:
    rules = [
        {"record": f"panel:expression:{index}", "expr": re.sub(r"\$__rate_interval", "1m", expression)}
        for index, (_, expression) in enumerate(EXPRESSIONS)
    ]
    path = tmp_path / "rules.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), encoding="utf-8")
    done = subprocess.run(["promtool", "check", "rules", path], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_grafana_can_import_it() -> None:
    assert BOARD["id"] is None
    assert BOARD["uid"]
    assert BOARD["schemaVersion"] >= 36
    variables = {one["name"]: one for one in BOARD["templating"]["list"]}
    assert variables["datasource"]["type"] == "datasource"
    assert variables["instance"]["definition"] == "label_values(rankmuster_instance_state, llm_instance)"
    assert variables["instance"]["multi"]
    assert variables["instance"]["includeAll"]
    ids = [panel["id"] for panel in BOARD["panels"]]
    assert len(ids) == len(set(ids))
    taken = set()
    for panel in BOARD["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert grid["x"] + grid["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells


def test_every_metric_is_on_it() -> None:
    """A metric that nobody looks at, on an ordinary day or in an incident, need not be there."""
    text = " ".join(expression for _, expression in EXPRESSIONS)
    assert [metric.name for metric in (*ALL, FOLDED) if metric.name not in text] == []
