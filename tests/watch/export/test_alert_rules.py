"""The alert rules, by promtool: they call for faults, stay quiet in controls, and ask for nothing nobody exports."""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from promql_words import asked

from rankmuster.metrics import incident, kube
from rankmuster.metrics.declared import Kind
from rankmuster.metrics.registry import FOLDED
from rankmuster.watch.export.metrics import ALL

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "deploy" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rankmuster-alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
ALERTS = [rule for rule in RULES if "alert" in rule]
TESTS = yaml.safe_load((FOLDER / "rankmuster-alerts.test.yml").read_text(encoding="utf-8"))["tests"]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is in Debian's package prometheus")

TARGET_LABELS = {"instance", "job", "pod", "node", "container", "endpoint"}
"""Of the scrape, not of the exporter."""


@needs_promtool
@pytest.mark.parametrize(
    "words", [("check", "rules", "rankmuster-alerts.yml"), ("test", "rules", "rankmuster-alerts.test.yml")]
)
def test_promtool_accepts_them_and_every_series_fires_what_it_should(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *words], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_every_alert_is_seen_to_fire_in_a_test() -> None:
    fired = {
        name
        for test in TESTS
        for one in test.get("promql_expr_test", ())
        for sample in one["exp_samples"]
        for name in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert fired == {alert["alert"] for alert in ALERTS}


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_says_how_bad_it_is_and_what_to_do(alert: dict[str, Any]) -> None:
    assert re.fullmatch(r"Rankmuster[A-Z]\w+", alert["alert"])
    assert re.fullmatch(r"\d+[smh]", alert["for"])
    assert alert["labels"]["severity"] in ("critical", "warning", "info")
    assert 10 < len(alert["annotations"]["summary"]) < 120
    assert len(alert["annotations"]["description"].split()) >= 25


def test_only_a_stop_wakes_somebody() -> None:
    critical = {alert["alert"] for alert in ALERTS if alert["labels"]["severity"] == "critical"}
    assert critical == {"RankmusterInstanceStopped"}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.get("alert") or rule["record"])
def test_a_rule_asks_for_what_the_exporter_has(rule: dict[str, Any]) -> None:
    known = {metric.name: metric for metric in (*ALL, *incident.ALL, *kube.ALL, FOLDED)}
    recorded = {one["record"] for one in RULES if "record" in one}
    wanted = asked(rule["expr"])
    assert wanted.metrics
    labels_here = set(TARGET_LABELS)
    for name, matchers in wanted.metrics.items():
        assert name in known or name in recorded or name == "up", name
        labels = {label.name: label for label in known[name].labels} if name in known else {}
        if name in recorded:
            labels = {label.name: label for label in known["rankmuster_instance_state"].labels}
        labels_here |= set(labels)
        for label, operator, value in matchers:
            assert label in labels or label in TARGET_LABELS, f"{name} has no label {label}"
            values = labels[label].values if label in labels else ()
            wishes = value.split("|") if operator in ("=~", "!~") else [value]
            assert not values or set(wishes) <= set(values), f"{name}: {label} is never {value}"
    assert wanted.grouped <= labels_here


def test_the_controls_of_the_issue_are_among_the_tests() -> None:
    controls = " ".join(test["name"] for test in TESTS if test["name"].startswith("control"))
    for word in ("idle", "one request an hour", "weight loading", "prefill", "restart", "fail", "anew", "rolling"):
        assert word in controls
    for test in TESTS:
        if test["name"].startswith("control") and "replaced" not in test["name"]:
            assert all(not one["exp_samples"] for one in test["promql_expr_test"])


def test_the_page_of_the_metrics_is_fresh() -> None:
    spec = importlib.util.spec_from_file_location("write_metrics_doc", ROOT / "tools" / "write_metrics_doc.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    fresh = module.page()
    assert (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8") == fresh, "run python tools/write_metrics_doc.py"
    for metric in (*ALL, *incident.ALL, *kube.ALL):
        assert f"### `{metric.name}`" in fresh
        assert metric.text in fresh
    assert {metric.kind for metric in ALL} == set(Kind)
