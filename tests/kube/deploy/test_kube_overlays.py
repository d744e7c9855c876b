"""Every kustomization renders to objects that API servers take, and whose parts fit together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from kube_manifests import MINORS, OVERLAYS, PLACE, RENDERED, needs_kubectl, one, pod_specs, read, rendered

import kube_openapi
from rankmuster.kube.controller.settings import ROLES, ControllerSettings
from rankmuster.kube.controller.settings import read as read_settings
from rankmuster.kube.crd.policy import PolicySpec
from rankmuster.kube.crd.render import RESOURCES, schema_of
from rankmuster.kube.rbac_render import CONTROLLER, INSTALLED_IN
from rankmuster.model.kube import AGENT_PORT, METRICS_PORT, SIDECAR_PORT, TOKEN_FILE

OF_OTHERS = ("monitoring.coreos.com", "leaderworkerset.x-k8s.io")
"""Groups whose schemas are not Kubernetes' own."""

OURS = {resource.kind: resource for resource in RESOURCES}


def _files() -> list[str]:
    """Single files of objects, beside what kustomizations render."""
    folders = ("examples", "injected", "drill", ".")
    found = [path for folder in folders for path in sorted((PLACE / folder).glob("*.yaml"))]
    return [str(path.relative_to(PLACE)) for path in found if path.name != "kustomization.yaml"]


def _check(each: dict[str, Any], minor: str) -> None:
    group = each["apiVersion"].partition("/")[0]
    if each["kind"] in OURS:
        assert kube_openapi.problems(schema_of(OURS[each["kind"]]), each) == []
    elif group not in OF_OTHERS:
        kubernetes_validate.validate(each, minor, strict=True)


@needs_kubectl
@pytest.mark.parametrize("folder", RENDERED)
def test_api_servers_take_what_is_rendered(folder: str) -> None:
    objects = rendered(folder)
    assert objects
    for each in objects:
        for minor in MINORS:
            _check(each, minor)
    names = [(each["kind"], each["metadata"].get("namespace"), each["metadata"]["name"]) for each in objects]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("file", _files())
def test_api_servers_take_the_single_files(file: str) -> None:
    for each in read(PLACE / file):
        for minor in MINORS:
            _check(each, minor)
        if each["kind"] == "CommunicationPolicy":
            PolicySpec.model_validate(each["spec"])


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_what_is_named_is_there(overlay: str) -> None:
    objects = rendered(f"overlays/{overlay}")
    there = {(each["kind"], each["metadata"]["name"]) for each in objects}
    for _, spec in pod_specs(objects):
        assert ("ServiceAccount", spec["serviceAccountName"]) in there
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        for container in spec["containers"]:
            assert {mount["name"] for mount in container["volumeMounts"]} == set(volumes)
        for volume in volumes.values():
            if "configMap" in volume:
                assert ("ConfigMap", volume["configMap"]["name"]) in there
            if "persistentVolumeClaim" in volume:
                assert ("PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"]) in there
    for each in objects:
        if each["kind"].endswith("RoleBinding"):
            assert (each["roleRef"]["kind"], each["roleRef"]["name"]) in there
            assert each["subjects"] == [{"kind": "ServiceAccount", "name": CONTROLLER, "namespace": INSTALLED_IN}]


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_nothing_secret_is_in_it(overlay: str) -> None:
    """The token is the user's to make: a default one would be everybody's."""
    objects = rendered(f"overlays/{overlay}")
    assert not [each for each in objects if each["kind"] == "Secret"]
    for _, spec in pod_specs(objects):
        (token,) = (volume for volume in spec["volumes"] if volume["name"] == "token")
        assert token["secret"]["secretName"] == "rankmuster-token"
        assert "optional" not in token["secret"]


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_pods_have_no_more_rights_than_they_need(overlay: str) -> None:
    for name, spec in pod_specs(rendered(f"overlays/{overlay}")):
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert context["capabilities"]["drop"] == ["ALL"]
            assert "privileged" not in context
            assert container["resources"]["limits"]["memory"]
        if name == "rankmuster-agent":
            assert spec["automountServiceAccountToken"] is False
            assert set(context["capabilities"]["add"]) == {"SYS_PTRACE", "SYSLOG", "DAC_READ_SEARCH"}
        else:
            assert spec["securityContext"]["runAsNonRoot"] is True
            assert "add" not in context["capabilities"]
            assert not {"hostPID", "hostNetwork", "hostIPC"} & set(spec)


@needs_kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_settings_are_read_and_enable_what_the_roles_allow(overlay: str) -> None:
    objects = rendered(f"overlays/{overlay}")
    text = one(objects, "ConfigMap", "rankmuster-settings")["data"]["controller.yaml"]
    settings = read_settings(text, overlay)
    bound = {each["metadata"]["labels"]["rankmuster.dev/part"] for each in objects if each["kind"].endswith("Binding")}
    assert bound == {"observe", *settings.enable}
    assert set(settings.enable) <= set(ROLES)
    assert settings.listen == f"*:{METRICS_PORT}"


@needs_kubectl
def test_ports_and_paths_are_those_of_the_code() -> None:
    objects = rendered("overlays/acting")
    agent = one(objects, "DaemonSet", "rankmuster-agent")["spec"]["template"]["spec"]["containers"][0]
    controller = one(objects, "Deployment", "rankmuster-controller")["spec"]["template"]["spec"]["containers"][0]
    assert agent["ports"][0]["containerPort"] == AGENT_PORT
    assert f"$(HOST_IP):{AGENT_PORT}" in agent["command"]
    assert controller["ports"][0]["containerPort"] == METRICS_PORT
    assert f"*:{METRICS_PORT}" in controller["command"], "probes ask there, whatever the settings say"
    (state,) = (each["value"] for each in controller["env"] if each["name"] == "XDG_STATE_HOME")
    assert Path(state) / "rankmuster" == ControllerSettings().folder, "`rankmuster incident` finds the journal there"
    egress = one(objects, "NetworkPolicy", "rankmuster-controller")["spec"]["egress"]
    anywhere = {port["port"] for rule in egress if "to" not in rule for port in rule["ports"]}
    assert {SIDECAR_PORT, AGENT_PORT} <= anywhere, "with hostNetwork both are at their nodes' addresses"
    for container in (agent, controller):
        (token,) = (mount for mount in container["volumeMounts"] if mount["name"] == "token")
        assert f"{token['mountPath']}/token" == TOKEN_FILE
    for policy in read(PLACE / "injected" / "network-policy.yaml"):
        ports = {port["port"] for rule in policy["spec"]["ingress"] for port in rule.get("ports", ())}
        assert {SIDECAR_PORT, METRICS_PORT} <= ports


@needs_kubectl
def test_commands_of_pods_are_the_programs() -> None:
    from typer.main import get_command

    from rankmuster.cli.main import whole_app

    kube = get_command(whole_app()).commands["kube"].commands  # type: ignore[attr-defined]
    for _, spec in pod_specs(rendered("overlays/acting")):
        for container in spec["containers"]:
            program, kube_word, name, *rest = container["command"]
            assert (program, kube_word) == ("rankmuster", "kube")
            known = {option for parameter in kube[name].params for option in parameter.opts}
            assert {word for word in rest if word.startswith("--")} <= known


@needs_kubectl
def test_the_two_controllers_can_share_their_volume_or_stand_apart() -> None:
    def affinity(overlay: str) -> tuple[dict[str, Any], dict[str, Any]]:
        spec = one(rendered(f"overlays/{overlay}"), "Deployment", "rankmuster-controller")["spec"]
        (folder,) = (volume for volume in spec["template"]["spec"]["volumes"] if volume["name"] == "folder")
        assert spec["replicas"] == 2
        return spec["template"]["spec"]["affinity"], folder

    def budgets(overlay: str) -> int:
        return sum(each["kind"] == "PodDisruptionBudget" for each in rendered(f"overlays/{overlay}"))

    together, volume = affinity("acting")
    assert not budgets("acting"), "one that has to stand where the other stands never leaves a node that keeps one"
    assert "podAffinity" in together
    assert "persistentVolumeClaim" in volume
    apart, volume = affinity("acting-postgres")
    assert budgets("acting-postgres") == 1
    assert "podAffinity" not in apart
    assert apart["podAntiAffinity"]
    assert "emptyDir" in volume


@needs_kubectl
def test_network_policies_select_what_is_there() -> None:
    objects = rendered("overlays/acting-postgres")
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in objects
        if each["kind"] in ("Deployment", "DaemonSet")
    ]
    for name in ("rankmuster-controller", "rankmuster-agent"):
        wanted = one(objects, "NetworkPolicy", name)["spec"]["podSelector"]["matchLabels"]
        assert any(wanted.items() <= have.items() for have in labels)
    selected = one(objects, "PodDisruptionBudget", "rankmuster-controller")["spec"]["selector"]["matchLabels"]
    assert any(selected.items() <= have.items() for have in labels)


def test_objects_of_the_prometheus_operator_watch_what_is_there() -> None:
    monitors = read(PLACE / "monitoring" / "monitors.yaml")
    rules = read(PLACE / "monitoring" / "rules.yaml")
    assert {each["kind"] for each in monitors} == {"ServiceMonitor", "PodMonitor"}
    assert {each["kind"] for each in rules} == {"PrometheusRule"}
    for path in sorted((PLACE.parents[0] / "prometheus").glob("*-alerts.yml")):
        (same,) = (each for each in rules if each["metadata"]["name"] == path.stem)
        assert same["spec"] == yaml.safe_load(path.read_text(encoding="utf-8"))
