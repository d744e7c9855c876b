"""A policy becomes settings of the incident engine within what the cluster allows, or says why not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rankmuster.incident.config_read import ConfigRefused
from rankmuster.kube.controller.policy_config import PolicyRefused, config_of, read_policy
from rankmuster.kube.controller.settings import ControllerSettings, read
from rankmuster.model.fault import Boundary, FaultClass
from rankmuster.model.incident import Step

SELECTOR = {"matchLabels": {"app": "llm"}}
SETTINGS = ControllerSettings(enable=("traffic", "group"))


def policy(**spec: Any) -> Any:
    return read_policy({"selector": SELECTOR, **spec})


def test_what_a_policy_enables_is_bounded_by_the_cluster() -> None:
    spec = policy(enable=["traffic", "group", "node"], deadlines={"total": 600, "steps": {"drain": 5}})
    config = config_of(spec, SETTINGS, "prod.llm.0", {})
    assert config.enable == ("traffic", "group")
    assert config.budget == {Step.DRAIN: 5.0}
    assert config.total_seconds == 600.0
    assert config_of(spec, replace(SETTINGS, dry_run=True), "prod.llm.0", {}).enable == ()
    assert config_of(policy(), SETTINGS, "prod.llm.0", {}).enable == ()


def test_nothing_is_ended_behind_a_gateway_that_goes_on_sending() -> None:
    traffic = {"readinessGate": True, "gateways": ["production_stack"]}
    with pytest.raises(PolicyRefused, match="requests would go on"):
        config_of(policy(enable=["group"], traffic=traffic), SETTINGS, "prod.llm.0", {})
    assert config_of(policy(traffic=traffic), SETTINGS, "prod.llm.0", {}).enable == ()


def test_its_rows_and_budgets_are_its_own() -> None:
    rows = [{"class": "transport_stall", "boundary": "node", "reason": "ours"}]
    config = config_of(policy(recovery=rows, limits={"rebuildsPerInstance": 1}), SETTINGS, "i", {"llm-0": "n1"})
    assert (config.recovery[0].class_, config.recovery[0].boundary) == (FaultClass.TRANSPORT_STALL, Boundary.NODE)
    assert config.limits.rebuilds_per_instance == 1
    assert config.limits.rebuilds_at_once == SETTINGS.limits.rebuilds_at_once
    assert config.instances["i"].nodes == {"llm-0": "n1"}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"selector": {}}, "empty selector"),
        ({"enabled": ["group"]}, "spec.enabled: this version knows no such field"),
        ({"enable": ["everything"]}, "spec.enable.0"),
        ({"approve": ["verify"]}, "need no approval"),
        ({"deadlines": {"steps": {"drain": -1}}}, "spec.deadlines.steps.drain"),
        ({"leastConfidence": "maybe"}, "spec.leastConfidence"),
        ({"kinds": ["CronJob"]}, "spec.kinds.0"),
        ({"probe": {"port": 99_999}}, "spec.probe.port"),
        ({"evidence": {"upload": "ftp://x"}}, "spec.evidence.upload"),
    ],
)
def test_a_policy_that_cannot_be_used_says_where_it_is_wrong(spec: dict[str, Any], said: str) -> None:
    with pytest.raises(PolicyRefused, match=said):
        policy(**spec)


@pytest.mark.parametrize("raw", [None, 5, [], {"selector": None}, {}])
def test_a_policy_without_a_selector_is_refused(raw: object) -> None:
    with pytest.raises(PolicyRefused):
        read_policy(raw)


def test_the_controllers_settings_are_read_strictly() -> None:
    settings = read("enable: [group]\nelection: {lease_seconds: 30}\nadmission: {share: 0.2}", "x.yaml")
    assert (settings.enable, settings.election.lease_seconds, settings.admission.share) == (("group",), 30.0, 0.2)
    for text, said in [
        ("enable: [all]", "enables nothing"),
        ("enabel: [group]", "there is no such key"),
        ("election: {lease_seconds: 5, renew_seconds: 5}", "renew_seconds"),
        ("period: soon", "period"),
        ("[1]", "wanted are keys"),
        ("a: &a [*a]", "x.yaml"),
    ]:
        with pytest.raises(ConfigRefused, match=said):
            read(text, "x.yaml")
