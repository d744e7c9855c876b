"""Every kind of the settings becomes what acts for it, and what cannot be made is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.incident.build import tools_of
from rankmuster.incident.config_read import ConfigRefused, read

TRAFFIC = {
    "{kind: haproxy, sockets: [/a], backend: b, server: s}": "Haproxy",
    '{kind: sglang_router, url: "http://r:1", worker: "http://w:1"}': "RegistryTraffic",
    '{kind: sglang_router, url: "http://r:1", worker: "http://w:1", api: add_remove}': "RegistryTraffic",
    '{kind: vllm_router, url: "http://r:1", worker: "http://w:1"}': "RegistryTraffic",
    '{kind: webhook_traffic, url: "http://r:1"}': "WebhookTraffic",
}
GROUP = {
    "{kind: supervisor}": "Supervisor",
    "{kind: supervisor, socket: /run/x.sock}": "Supervisor",
    '{kind: slurm_requeue, job: "12"}': "SlurmRequeue",
    "{kind: command, terminate: [a], start: [b], look: [c]}": "CommandGroup",
}
NODE = {
    "{kind: slurm_drain}": "SlurmDrain",
    "{kind: deny_file, path: /etc/deny}": "DenyFile",
    '{kind: webhook_node, url: "http://n:1", look_url: "http://n:1/{node}"}': "WebhookNode",
}


def tools(text: str, tmp_path: Path) -> object:
    config = read(f"folder: {tmp_path}\ninstances: {{llm-0: {{{text}}}}}", "f")
    return tools_of(config, "llm-0", {"HOME": str(tmp_path)})


@pytest.mark.parametrize("kind", TRAFFIC)
def test_traffic(kind: str, tmp_path: Path) -> None:
    made = tools(f"traffic: [{kind}]", tmp_path)
    assert type(made.traffic[0]).__name__ == TRAFFIC[kind]
    assert made.enabled == frozenset()


@pytest.mark.parametrize("kind", GROUP)
def test_group(kind: str, tmp_path: Path) -> None:
    assert type(tools(f"group: {kind}", tmp_path).group).__name__ == GROUP[kind]


@pytest.mark.parametrize("kind", NODE)
def test_node(kind: str, tmp_path: Path) -> None:
    made = tools(f"group: {{kind: supervisor}}, node: [{kind}]", tmp_path)
    assert type(made.nodes[0]).__name__ == NODE[kind]


def test_retest_evidence_and_probe(tmp_path: Path) -> None:
    made = tools('retest: {reach: [srun, -w, "{node}"]}, probe: {url: "http://i:1/health"}', tmp_path)
    assert (type(made.retest).__name__, type(made.probe).__name__) == ("AdmitRetest", "HttpProbe")
    assert type(made.evidence).__name__ == "CollectEvidence"


def test_several_gateways_have_names_of_their_own(tmp_path: Path) -> None:
    made = tools(f"traffic: [{', '.join(list(TRAFFIC)[:2])}]", tmp_path)
    assert [one.name for one in made.traffic] == ["haproxy-0", "sglang_router-1"]


def test_an_instance_that_is_not_configured_is_said(tmp_path: Path) -> None:
    config = read("instances: {llm-0: {}}", "f")
    with pytest.raises(ConfigRefused, match="no instance 'llm-7' is configured; there is llm-0"):
        tools_of(config, "llm-7")


def test_a_socket_path_that_no_kernel_takes_is_said_before_anything_happens() -> None:
    name = "x" * 120
    config = read(f"instances: {{{name}: {{group: {{kind: supervisor}}}}}}", "f")
    with pytest.raises(ConfigRefused, match=r"instances\.x"):
        tools_of(config, name)
