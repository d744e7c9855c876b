"""What a file of settings may say, and what is said of one that could never work."""

from __future__ import annotations

import pytest

from rankmuster.incident.config import HaproxyTraffic, IncidentConfig, SupervisorGroup
from rankmuster.incident.config_read import ConfigRefused, enabled_roles, read
from rankmuster.model.fault import Boundary, FaultClass
from rankmuster.model.incident import Step

WHOLE = """
enable: [traffic, llm-0/group]
approve: [terminate]
undecided: rebuild
budget: {drain: 5, evidence: 12}
recovery:
  - {class: inconclusive, boundary: process_group, reason: we rather lose a minute}
instances:
  llm-0:
    traffic:
      - {kind: haproxy, sockets: [/run/haproxy.sock], backend: llm, server: s0}
    group: {kind: supervisor}
    node:
      - {kind: deny_file, path: /etc/deny}
    probe: {url: "http://127.0.0.1:8000/v1/completions", body: "{}"}
  llm-1:
    group: {kind: slurm_requeue, job: "17"}
"""


def test_a_whole_file_is_taken() -> None:
    config = read(WHOLE, "incident.yaml")
    one = config.instances["llm-0"]
    assert one.traffic == (HaproxyTraffic(sockets=("/run/haproxy.sock",), backend="llm", server="s0"),)
    assert one.group == SupervisorGroup()
    assert config.budget[Step.DRAIN] == 5
    assert config.recovery[0].class_ is FaultClass.INCONCLUSIVE
    assert config.recovery[0].boundary is Boundary.PROCESS_GROUP


def test_nothing_is_enabled_by_default() -> None:
    assert read("", "empty.yaml") == IncidentConfig()
    config = read("instances: {a: {group: {kind: supervisor}}}", "f")
    assert enabled_roles(config, "a") == frozenset()


def test_a_role_is_enabled_for_all_or_for_one_instance() -> None:
    config = read(WHOLE, "f")
    assert enabled_roles(config, "llm-0") == {"traffic", "group"}
    assert enabled_roles(config, "llm-1") == {"traffic"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("instances: [1]", "instances"),
        ("- 1", "wanted are keys"),
        ("a: {", "no YAML"),
        ("colour: red", "colour: there is no such key"),
        ("enable: [grup]", "'grup' enables nothing; it is one of traffic, group, node, retest"),
        ("enable: [llm-9/group]", "names an instance that is not configured; there is none"),
        ("approve: [restore]", "restore needs no approval"),
        ("recovery: [{class_: healthy, boundary: none}]", "it is called class"),
        ("recovery: [{class: helthy, boundary: none}]", "recovery.0.class"),
        ("recovery: [{class: healthy}]", "boundary"),
        ("budget: {drian: 4}", "budget"),
        ("budget: {drain: 0}", "budget.drain"),
        ("budget: {drain: .inf}", "budget.drain"),
        ("total_seconds: -4", "total_seconds"),
        ("limits: {rebuilds_share: 2}", "limits.rebuilds_share"),
        ("instances: {'a b/c': {}}", "is no name of an instance"),
        ("instances: {a: {group: {kind: kubernetes}}}", "instances.a.group"),
        ("instances: {a: {traffic: [{kind: haproxy, sockets: [], backend: b, server: s}]}}", "sockets"),
        (
            "instances: {a: {traffic: [{kind: haproxy, sockets: [/a], backend: 'b;shutdown', server: s}]}}",
            "backend",
        ),
        ("instances: {a: {node: [{kind: slurm_drain}]}}", "no group is given that could be rebuilt"),
        (
            "instances: {a: {group: {kind: supervisor}, node: [{kind: slurm_drain}, {kind: slurm_drain}]}}",
            "given twice",
        ),
    ],
)
def test_what_could_never_work_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        read(text, "incident.yaml")
    assert str(refused.value).startswith("incident.yaml")
    assert said in str(refused.value)


def test_a_file_that_refers_to_itself_is_no_trap() -> None:
    with pytest.raises(ConfigRefused):
        read("&a\ninstances: *a\n", "loop.yaml")


def test_a_huge_file_is_not_parsed() -> None:
    with pytest.raises(ConfigRefused, match="at most"):
        read("#" * ((1 << 20) + 1), "huge.yaml")
