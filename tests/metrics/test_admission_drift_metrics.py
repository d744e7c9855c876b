"""Metrics of admission and drift: what stands in the file, that Prometheus takes it, and that alerts ask for it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from rankmuster.metrics.admission_drift import ALL, admission_page, drift_page
from rankmuster.model.admission import AdmissionRecord, Check, CheckGroup, CheckState, Decision, Kinship
from rankmuster.model.benchmark import Operation
from rankmuster.model.drift import DriftFinding, DriftKind, DriftReport, DriftScope
from rankmuster.model.judgement import Regime, RegimeJudgement, Standing

pytest.importorskip("prometheus_client")

FOLDER = Path(__file__).parents[2] / "deploy" / "prometheus"
RULES: list[dict[str, Any]] = [
    rule
    for group in yaml.safe_load((FOLDER / "rankmuster-baseline-alerts.yml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
TESTS = yaml.safe_load((FOLDER / "rankmuster-baseline-alerts.test.yml").read_text(encoding="utf-8"))["tests"]
PROMTOOL = shutil.which("promtool")
needs_promtool = pytest.mark.skipif(PROMTOOL is None, reason="promtool is in Debian's package prometheus")

CLASS = "sha256:" + "ab" * 32


def finding(host: str, size: float | None, kind: DriftKind = DriftKind.BANDWIDTH) -> DriftFinding:
    return DriftFinding(kind, DriftScope.NODE, CLASS, (host,), "slower", "test it", size)


def report(*findings: DriftFinding, stop: bool = False) -> DriftReport:
    return DriftReport(
        nodes=900,
        classes=(CLASS,),
        findings=findings,
        baseline_applies=True,
        regenerate=("class x, profile y",),
        why=(),
        unknown=("a: b", "c: d"),
        stop_rollout=stop,
    )


def judgement(regime: Regime, statistic: float | None, standing: Standing, in_place: bool = False) -> RegimeJudgement:
    return RegimeJudgement(
        operation=Operation.ALL_REDUCE,
        regime=regime,
        graph=False,
        in_place=in_place,
        standing=standing,
        statistic=statistic,
        refuse_below=0.95,
        retest_below=0.97,
        samples=30,
        nodes=8,
        method="median",
        false_alarm=0.01,
        floor=None,
        can_refuse=regime is not Regime.LATENCY,
        reason="",
        cells=(),
    )


RECORD = AdmissionRecord(
    decision=Decision.FAIL,
    reasons=("slow",),
    nodes=("h-1",),
    started_at=1.79e9,
    ended_at=1.79e9 + 200,
    fingerprint={"class_hash": CLASS},
    profile="tp8-decode@0123456789ab",
    compared_with=CLASS,
    kinship=Kinship.CLASS,
    history_runs=30,
    history_nodes=8,
    checks=(
        Check("xid", CheckGroup.HARDWARE, CheckState.PASS, "the node", "no Xid"),
        Check("ecc", CheckGroup.HARDWARE, CheckState.PASS, "GPU 0", "no error"),
        Check("p2p", CheckGroup.PEER_TO_PEER, CheckState.HUNG, "GPU 0", "no answer"),
    ),
    judgements=(
        judgement(Regime.PLATEAU, 0.9, Standing.BELOW),
        judgement(Regime.PLATEAU, 0.99, Standing.WITHIN, in_place=True),
        judgement(Regime.LATENCY, 1.02, Standing.WITHIN),
    ),
    retests=2,
)


def values(page: str) -> dict[str, float]:
    """Series -> value."""
    found = {}
    for line in page.splitlines():
        if line and not line.startswith("#"):
            name, _, value = line.rpartition(" ")
            found[name] = float(value)
    return found


def test_a_drifting_node_has_its_worst_change_and_a_healthy_one_none() -> None:
    page = values(drift_page(report(finding("h-1", -0.04), finding("h-1", -0.1), finding("h-2", None)), now=1.79e9))
    assert page['rankmuster_drift_change_ratio{host="h-1",kind="bandwidth"}'] == pytest.approx(-0.1)
    assert not any('host="h-2"' in name for name in page)
    assert page['rankmuster_drift_nodes{class="abababababab",kind="bandwidth",scope="node"}'] == 2
    assert page["rankmuster_drift_nodes_examined"] == 900
    assert page["rankmuster_drift_parts_not_compared"] == 2
    assert page["rankmuster_drift_baselines_to_regenerate"] == 1
    assert page["rankmuster_drift_stop_rollout"] == 0
    assert page["rankmuster_drift_last_check_timestamp_seconds"] == 1.79e9


def test_names_of_hosts_cannot_break_the_page_or_grow_without_bound() -> None:
    hostile = [finding(f'h"{number}\n\x1b\\', -0.1) for number in range(5000)]
    page = drift_page(report(*hostile, finding("\ud800", -0.1)), now=1.0)
    series = [name for name in values(page) if name.startswith("rankmuster_drift_change_ratio")]
    assert len(series) == 4097
    assert 'host="other"' in " ".join(series)
    assert "rankmuster_labels_folded_total" in page


def test_an_admission_shows_its_decision_and_how_far_each_regime_is() -> None:
    page = values(admission_page(RECORD))
    of = 'host="h-1",profile="tp8-decode@0123456789ab"'
    assert page[f'rankmuster_admission_decision{{decision="fail",{of}}}'] == 1
    assert page[f'rankmuster_admission_decision{{decision="pass",{of}}}'] == 0
    assert page['rankmuster_admission_checks{group="hardware",host="h-1",state="pass"}'] == 2
    assert page['rankmuster_admission_checks{group="peer_to_peer",host="h-1",state="hung"}'] == 1
    lane = 'host="h-1",launch="eager",operation="all_reduce",profile="tp8-decode@0123456789ab"'
    assert page[f'rankmuster_admission_result_ratio{{{lane},regime="plateau"}}'] == pytest.approx(0.9)
    assert page[f'rankmuster_admission_refused_below_ratio{{{lane},regime="plateau"}}'] == pytest.approx(0.95)
    assert f'rankmuster_admission_refused_below_ratio{{{lane},regime="latency"}}' not in page
    assert page[f"rankmuster_admission_duration_seconds{{{of}}}"] == 200
    assert page[f"rankmuster_admission_retests{{{of}}}"] == 2


@needs_promtool
@pytest.mark.parametrize(
    "page", [drift_page(report(finding("h-1", -0.1), stop=True), now=1.79e9), admission_page(RECORD)]
)
def test_promtool_finds_nothing_wrong_with_the_page(page: str) -> None:
    done = subprocess.run(
        [str(PROMTOOL), "check", "metrics"], input=page, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@needs_promtool
@pytest.mark.parametrize(
    "words",
    [("check", "rules", "rankmuster-baseline-alerts.yml"), ("test", "rules", "rankmuster-baseline-alerts.test.yml")],
)
def test_promtool_accepts_the_rules_and_each_calls_for_what_it_should(words: tuple[str, ...]) -> None:
    done = subprocess.run([str(PROMTOOL), *words], cwd=FOLDER, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "SUCCESS" in done.stdout


def test_every_alert_is_seen_to_fire_in_a_test_and_none_in_the_control() -> None:
    fired = {
        name
        for test in TESTS
        for one in test["promql_expr_test"]
        for sample in one["exp_samples"]
        for name in re.findall(r'alertname="(\w+)"', sample["labels"])
    }
    assert fired == {rule["alert"] for rule in RULES}
    controls = [test for test in TESTS if test["name"].startswith("control")]
    assert controls
    assert all(not one["exp_samples"] for test in controls for one in test["promql_expr_test"])


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_an_alert_asks_for_what_is_written_and_says_what_to_do(rule: dict[str, Any]) -> None:
    known = {metric.name: metric for metric in ALL}
    asked = re.findall(r"(rankmuster_[a-z_]+)(?:\{([^}]*)\})?", rule["expr"])
    assert asked
    for name, braces in asked:
        labels = {label.name: label.values for label in known[name].labels}
        for label, value in re.findall(r'(\w+)=~?"([^"]*)"', braces):
            assert set(value.split("|")) <= set(labels[label])
    grouped = {word.strip() for inside in re.findall(r"by \(([^)]*)\)", rule["expr"]) for word in inside.split(",")}
    assert grouped <= {"job"} | {label.name for name, _ in asked for label in known[name].labels}
    assert rule["labels"]["severity"] in ("warning", "info")
    assert 10 < len(rule["annotations"]["summary"]) < 120
    assert len(rule["annotations"]["description"].split()) >= 25


def test_every_metric_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "metrics.md").read_text(encoding="utf-8")
    for metric in ALL:
        assert f"### `{metric.name}`" in page
        assert metric.text in page
    for rule in RULES:
        assert f"| {rule['alert']} |" in page
