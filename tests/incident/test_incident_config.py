"""What a file of settings may say, and what is said of one that could never work."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.incident.config import HaproxyTraffic, IncidentConfig, SupervisorGroup
from rankmuster.incident.config_objections import doubts
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
        ("budget: {drain: yes}", "budget.drain: a number is wanted"),
        ('budget: {drain: "5"}', "budget.drain: a number is wanted"),
        ("limits: {rebuilds_at_once: 2.5}", "limits.rebuilds_at_once"),
        ("incident_profile: 1", "true or false is wanted"),
        ("enable: traffic", "enable: a list is wanted"),
        ("instances: {a: null}", "instances.a: keys and their values are wanted"),
        ("instances: {a: {group: supervisor}}", "instances.a.group"),
        ("instances: {a: {group: {kind: slurm_requeue, job: 17}}}", "put quotes"),
        ("instances: {a: {group: {kind: slurm_requeue}}}", "job: it is missing"),
        ("instances: {a: {torch: 2.9}}", "put quotes"),
        ("instances: {7: {}}", "instances: the key '7' is no text; put quotes"),
        ("instances: {a: {engine: 2026-01-01}}", "is taken for a date; put quotes"),
        ("enable: []\nundecided: hold\nenable: [group]", "line 3: 'enable' is there twice"),
        ("instances:\n  a: {}\n  a: {group: {kind: supervisor}}", "line 3: 'a' is there twice"),
        ("a: !!python/object/apply:os.system [id]", "no YAML"),
        ("enable: [retest]\ninstances: {a: {group: {kind: supervisor}}}", "enable: retest: no instance has such"),
        ("recovery: [{class: healthy, subclass: missing_enter, boundary: none}]", "one of collective_desync"),
        ("instances: {a: {probe: {url: 'ftp://h/'}}}", "instances.a.probe.url is no address"),
        ("instances: {a: {metrics_url: 'localhost:8000/metrics'}}", "instances.a.metrics_url is no address"),
        ("instances: {a: {metrics_url: 'http://u:SECRET@h/'}}", "they are not sent"),
        ("instances: {a: {metrics_url: 'http://h:99999/'}}", "instances.a.metrics_url is no address"),
        (
            "instances: {a: {group: {kind: supervisor}, retest: {history: 'postgresql://u:SECRET@h/d'}}}",
            "retest.history holds a password",
        ),
        ("hooks: [{kind: webhook, url: 'http://u:SECRET@h/'}]", "hooks.0.url holds a user or a password"),
        (
            "instances: {a: {traffic: [{kind: sglang_router, url: 'http://r', worker: 'http://u:SECRET@w'}]}}",
            "traffic.0.worker holds a user or a password",
        ),
    ],
)
def test_what_could_never_work_is_refused_with_its_place(text: str, said: str) -> None:
    with pytest.raises(ConfigRefused) as refused:
        read(text, "incident.yaml")
    assert str(refused.value).startswith("incident.yaml")
    assert said in str(refused.value)
    assert "SECRET" not in str(refused.value)


def test_a_file_that_refers_to_itself_is_no_trap() -> None:
    with pytest.raises(ConfigRefused):
        read("&a\ninstances: *a\n", "loop.yaml")


def test_a_few_lines_that_make_billions_of_values_are_no_trap() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 12)]
    with pytest.raises(ConfigRefused, match="more than settings ever do"):
        read("\n".join(lines), "laughs.yaml")


def test_what_several_instances_share_may_be_said_once() -> None:
    text = """
instances:
  llm-0: &one {group: {kind: supervisor}, engine: vllm}
  llm-1: {<<: *one, engine: sglang}
"""
    config = read(text, "f")
    assert [one.engine for one in config.instances.values()] == ["vllm", "sglang"]
    assert config.instances["llm-1"].group == SupervisorGroup()


def test_what_would_fail_in_an_incident_is_told_beforehand(tmp_path: Path) -> None:
    there = tmp_path / "headers"
    there.write_text("Authorization: Bearer x\n")
    text = f"""
hooks: [{{kind: command, command: [/no/such/hook]}}]
instances:
  a:
    group: {{kind: command, terminate: [/bin/true], start: [/no/such/start]}}
    traffic:
      - {{kind: webhook_traffic, url: "http://h/", header_file: {there}}}
      - {{kind: webhook_traffic, url: "http://i/", header_file: /no/such/headers}}
"""
    assert doubts(read(text, "f")) == [
        "instances.a.traffic.1.header_file: /no/such/headers is not there, or may not be read",
        "instances.a.group.start: the program /no/such/start is not there, or may not be run",
        "hooks.0: the program /no/such/hook is not there, or may not be run",
    ]


def test_a_huge_file_is_not_parsed() -> None:
    with pytest.raises(ConfigRefused, match="at most"):
        read("#" * ((1 << 20) + 1), "huge.yaml")
