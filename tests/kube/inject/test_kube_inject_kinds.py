"""Every kind of workload gets the sidecar where its pods are made, and its instance the name the controller knows."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kube_inject_manifests import (
    DEPLOYMENT,
    INFERENCE_SERVICE,
    JOB_SET,
    KINDS,
    LLM_D,
    LLM_INFERENCE_SERVICE,
    LWS,
    STATEFUL_SET,
    documents,
    environment,
    injected,
    named,
    one,
)

from rankmuster.model.kube import EVIDENCE_FOLDER, GATE, INJECTED, Grouping

POD = {
    "POD_NAMESPACE": "serve",
    "POD_NAME": "the-pod",
    "RANKMUSTER_WORKLOAD": "llm",
    "RANKMUSTER_GROUP": "1",
}


def expanded(container: dict[str, Any], text: str) -> str:
    """As the kubelet does: a reference to a variable that stands before it."""
    known = environment(container)

    def value(match: re.Match[str]) -> str:
        assert match[1] in known, f"{match[1]} is not set"
        return POD[match[1]]

    return re.sub(r"\$\((\w+)\)", value, text)


def instance(container: dict[str, Any]) -> str:
    names = [entry["name"] for entry in container["env"]]
    text = environment(container)["RANKMUSTER_INSTANCE"]
    for reference in re.findall(r"\$\((\w+)\)", text):
        assert names.index(reference) < names.index("RANKMUSTER_INSTANCE")
    return expanded(container, text)


def specs(value: Any) -> list[dict[str, Any]]:
    """All pod specs below."""
    if isinstance(value, list):
        return [found for entry in value for found in specs(entry)]
    if not isinstance(value, dict):
        return []
    own = [value] if "shareProcessNamespace" in value else []
    return own + [found for entry in value.values() for found in specs(entry)]


@pytest.mark.parametrize(
    ("text", "grouping", "wanted"),
    [
        (LWS, "auto", ["serve.llm.1", "serve.llm.1"]),
        (LWS, "workload", ["serve.llm", "serve.llm"]),
        (LWS, "pod", ["serve.llm.the-pod"] * 2),
        (JOB_SET, "auto", ["serve.train"]),
        (STATEFUL_SET, "auto", ["serve.llm"]),
        (STATEFUL_SET, "pod", ["serve.llm.the-pod"]),
        (DEPLOYMENT, "auto", ["serve.llm.the-pod"]),
        (DEPLOYMENT, "workload", ["serve.llm"]),
        (LLM_D, "auto", ["serve.ms-llm-d-modelservice-decode.the-pod"]),
    ],
)
def test_the_instance_is_called_as_the_controller_calls_it(text: str, grouping: str, wanted: list[str]) -> None:
    (made,) = documents(injected(text, grouping=Grouping(grouping)).text)
    found = specs(made)
    engines = [named(spec["containers"], spec["containers"][0]["name"]) for spec in found]
    assert [instance(container) for container in engines] == wanted
    for spec, name in zip(found, wanted, strict=True):
        sidecar = named(spec["initContainers"])
        args = sidecar["args"]
        assert expanded(sidecar, args[args.index("--instance") + 1]) == name


def test_kserve_gets_it_where_its_pods_are_made() -> None:
    predictor = one(INFERENCE_SERVICE, "spec", "predictor")
    assert instance(predictor["model"]) == "serve.qwen-predictor.the-pod"
    assert predictor["model"]["args"] == ["--tensor-parallel-size=4"]
    assert predictor["annotations"] == {INJECTED: "1.2.3"}
    assert named(predictor["initContainers"])["restartPolicy"] == "Always"
    assert environment(predictor["model"])["HF_HUB_OFFLINE"] == "1"

    spec = one(LLM_INFERENCE_SERVICE, "spec")
    for part in (spec["template"], spec["worker"]):  # with a worker KServe makes a LeaderWorkerSet
        assert instance(part["containers"][0]) == "serve.llm.1"
    assert instance(spec["prefill"]["template"]["containers"][0]) == "serve.deepseek-kserve-prefill.the-pod"
    assert all("annotations" not in part for part in specs(spec))


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS.keys())
def test_each_pod_has_sidecar_volumes_namespace_and_environment(text: str) -> None:
    (made,) = documents(injected(text).text)
    assert specs(made)
    for spec in specs(made):
        assert spec["shareProcessNamespace"] is True
        sidecar = named(spec["initContainers"])
        assert sidecar["restartPolicy"] == "Always"
        assert sidecar["image"] == "registry.example/rankmuster:1.2.3"
        # a restart counts for the whole pod, and an unready sidecar makes it unready
        assert not {"livenessProbe", "readinessProbe", "startupProbe"} & sidecar.keys()
        assert environment(sidecar)["NVIDIA_VISIBLE_DEVICES"] == "void"
        assert "RANKMUSTER_INSTANCE" not in environment(sidecar)  # it would count as one more process of it
        assert sidecar["securityContext"]["readOnlyRootFilesystem"] is True
        volumes = {volume["name"]: volume for volume in spec["volumes"]}
        assert volumes["rankmuster-token"]["secret"]["optional"] is True
        mounted = {mount["name"] for mount in sidecar["volumeMounts"]}
        assert mounted <= volumes.keys()
        engine = next(c for c in (*spec.get("containers", ()), spec.get("model")) if c and "env" in c)
        assert {"name": "rankmuster-evidence", "mountPath": EVIDENCE_FOLDER} in engine["volumeMounts"]
        assert "rankmuster-work" not in {mount["name"] for mount in engine["volumeMounts"]}
        found = environment(engine)
        assert found["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] == f"{EVIDENCE_FOLDER}/nccl_pipe_rank_"
        assert found["NCCL_DEBUG_FILE"] == f"{EVIDENCE_FOLDER}/nccl_%h_%p.log"
        assert found["POD_UID"] == "metadata.uid"
        assert all(mount["mountPath"] != "/dev/shm" for mount in sidecar["volumeMounts"])


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS.keys())
def test_twice_is_once(text: str) -> None:
    first = injected(text, gate=True)
    again = injected(first.text, gate=True)
    assert documents(again.text) == documents(first.text)
    assert again.done == first.done


def test_another_version_takes_the_place_of_the_first() -> None:
    first = injected(DEPLOYMENT).text
    second = one(first, "spec", "template", "spec", image="registry.example/other:9", metrics=False)
    assert named(second["initContainers"])["image"] == "registry.example/other:9"
    assert len(second["initContainers"]) == 1
    assert len(second["volumes"]) == 4


def test_a_job_without_an_engine_is_left_alone() -> None:
    made = injected(JOB_SET)
    (value,) = documents(made.text)
    driver, workers = value["spec"]["replicatedJobs"]
    assert "initContainers" not in driver["template"]["spec"]["template"]["spec"]
    assert named(workers["template"]["spec"]["template"]["spec"]["initContainers"])
    assert any("driver" in note and "left as it is" in note for note in made.notes)


def test_native_sidecars_of_others_stay_and_ours_is_first() -> None:
    inits = one(LLM_D, "spec", "template", "spec", "initContainers")
    assert [container["name"] for container in inits] == ["rankmuster", "routing-proxy"]


def test_what_the_operator_set_stays_and_is_told() -> None:
    text = DEPLOYMENT.replace('args: ["--model", "m"]', "env: [{name: NCCL_DEBUG, value: WARN}]")
    made = injected(text)
    (value,) = documents(made.text)
    assert environment(value["spec"]["template"]["spec"]["containers"][0])["NCCL_DEBUG"] == "WARN"
    assert any("NCCL_DEBUG" in note for note in made.notes)


def test_the_gate_is_added_only_where_it_is_wanted_and_warned_of() -> None:
    assert "readinessGates" not in one(LWS, "spec", "leaderWorkerTemplate", "workerTemplate", "spec")
    made = injected(DEPLOYMENT, gate=True)
    (value,) = documents(made.text)
    assert value["spec"]["template"]["spec"]["readinessGates"] == [{"conditionType": GATE}]
    assert any("becomes ready" in note for note in made.notes)


def test_the_sidecar_is_who_the_engine_is() -> None:
    def context(text: str, **more: Any) -> dict[str, Any]:
        found = named(one(text, "spec", "template", "spec", "initContainers", **more))["securityContext"]
        assert isinstance(found, dict)
        return found

    root = context(DEPLOYMENT)
    assert (root["runAsUser"], root["capabilities"]) == (0, {"drop": ["ALL"], "add": ["SYS_PTRACE"]})
    assert "capabilities" not in context(DEPLOYMENT, ptrace=False)
    own = DEPLOYMENT.replace("          args", "          securityContext: {runAsUser: 2000}\n          args")
    assert (context(own)["runAsUser"], context(own)["capabilities"]) == (2000, {"drop": ["ALL"]})
    pod = DEPLOYMENT.replace("    spec:\n", "    spec:\n        securityContext: {runAsUser: 3000, runAsGroup: 7}\n", 1)
    assert (context(pod)["runAsUser"], context(pod)["runAsGroup"]) == (3000, 7)
    assert context(DEPLOYMENT, run_as=5)["runAsUser"] == 5
    unknown = DEPLOYMENT.replace("          args", "          securityContext: {runAsNonRoot: true}\n          args")
    assert "runAsUser" not in context(unknown)
    assert any("--run-as-user" in note for note in injected(unknown).notes)


def test_a_short_grace_and_the_nodes_network_are_told() -> None:
    text = DEPLOYMENT.replace(
        "    spec:\n", "    spec:\n        hostNetwork: true\n        terminationGracePeriodSeconds: 5\n", 1
    )
    notes = " ".join(injected(text).notes)
    assert "terminationGracePeriodSeconds" in notes
    assert "hostNetwork" in notes


def test_no_agent_and_no_metrics() -> None:
    sidecar = named(
        one(
            DEPLOYMENT,
            "spec",
            "template",
            "spec",
            "initContainers",
            agent=False,
            metrics=False,
            metrics_url="http://x/$(A)",
        )
    )
    assert "--agent" not in sidecar["args"]
    assert [port["name"] for port in sidecar["ports"]] == ["rankmuster"]
    assert "http://x/$$(A)" in sidecar["args"]
