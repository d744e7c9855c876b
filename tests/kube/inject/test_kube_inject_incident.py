"""One start with the incident's profile: inject and the controller's ConfigMap together, on a simulated cluster."""

from __future__ import annotations

from typing import Any

import kubernetes_validate
import pytest
from kube_inject_manifests import (
    DEPLOYMENT,
    INFERENCE_SERVICE,
    JOB_SET,
    KINDS,
    LLM_INFERENCE_SERVICE,
    LWS,
    STATEFUL_SET,
    documents,
    environment,
    injected,
)
from test_kube_inject_refusals import command, with_container

from kube_group_world import World, world
from kube_sim import pod_files
from kube_workloads import job_set, leader_worker_set, workload
from rankmuster.adapters.kube.groups.start_profile import StartProfile
from rankmuster.adapters.kube.naming import MOST_NAME, profile_config_map, steady_config_map
from rankmuster.kube.controller.actuators import incident_variables
from rankmuster.kube.inject.documents import as_yaml
from rankmuster.kube.inject.templates import NotInjectable
from rankmuster.model.incident import Ending, StartWish
from rankmuster.model.kube import WorkloadKind

STEADY, INCIDENT = "rankmuster.steady-llm", "rankmuster-llm"


def made(text: str) -> tuple[list[Any], list[Any], tuple[str, ...]]:
    """ConfigMaps, the others, notes."""
    out = injected(text, incident_profile=True)
    maps = [one for one in documents(out.text) if one["kind"] == "ConfigMap"]
    return maps, [one for one in documents(out.text) if one["kind"] != "ConfigMap"], out.notes


def engines(value: Any) -> list[dict[str, Any]]:
    """All containers below that have an environment of ours, but the sidecar."""
    if isinstance(value, list):
        return [found for one in value for found in engines(one)]
    if not isinstance(value, dict):
        return []
    own = [value] if "env" in value and value.get("name") != "rankmuster" else []
    return own + [found for one in value.values() for found in engines(one)]


def references(container: dict[str, Any]) -> list[str]:
    return [one["configMapRef"]["name"] for one in container.get("envFrom", ())]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        (LWS, ["llm"]),
        (STATEFUL_SET, ["llm"]),
        (DEPLOYMENT, ["llm"]),
        (JOB_SET, ["train"]),
        (INFERENCE_SERVICE, ["qwen-predictor"]),
        (LLM_INFERENCE_SERVICE, ["deepseek-kserve-mn", "deepseek-kserve-prefill"]),
    ],
)
def test_each_workload_has_one_config_map_and_both_references(text: str, names: list[str]) -> None:
    maps, (value,), _ = made(text)
    assert [one["metadata"]["name"] for one in maps] == [steady_config_map(name) for name in names]
    assert [one["metadata"].get("namespace") for one in maps] == [value["metadata"].get("namespace")] * len(maps)
    wanted = [[steady_config_map(name), profile_config_map(name)] for name in names]
    assert all(references(one) in wanted for one in engines(value))
    assert all(one["configMapRef"]["optional"] for engine in engines(value) for one in engine["envFrom"])
    for engine in engines(value):
        # who it is stays with its pod, and all of the profile is in one of the two places
        assert {"POD_UID", "RANKMUSTER_INSTANCE", "NCCL_RAS_ADDR"} <= environment(engine).keys()
        assert not environment(engine).keys() & maps[0]["data"].keys()
    (plain,) = documents(injected(text).text)
    assert set(environment(engines(plain)[0])) == {*environment(engines(value)[0]), *maps[0]["data"]}


@pytest.mark.parametrize("text", KINDS.values(), ids=KINDS.keys())
def test_twice_is_once_to_the_byte(text: str) -> None:
    first = injected(text, incident_profile=True).text
    assert injected(first, incident_profile=True).text == first


@pytest.mark.parametrize("text", [DEPLOYMENT, STATEFUL_SET])
def test_kubernetes_takes_it(text: str) -> None:
    maps, others, _ = made(text)
    for one in (*maps, *others):
        kubernetes_validate.validate(one, "1.36", strict=True)


def test_the_config_map_stands_before_its_workload_and_once_for_two_of_a_name() -> None:
    out = injected(f"# mine\nkind: Service\n---\n{DEPLOYMENT}---\n{STATEFUL_SET}", incident_profile=True).text
    assert [one["kind"] for one in documents(out)] == ["Service", "ConfigMap", "Deployment", "StatefulSet"]
    assert out.startswith("# mine\n")


def test_an_earlier_config_map_is_brought_up_to_date_where_it_stands() -> None:
    (one,), (value,), _ = made(DEPLOYMENT)
    one["data"] = {"NCCL_DEBUG": "WARN"}
    both = "---\n".join(as_yaml(document) for document in (value, one))
    out = documents(injected(both, incident_profile=True).text)
    assert [document["kind"] for document in out] == ["Deployment", "ConfigMap"]
    assert out[1]["data"]["NCCL_DEBUG"] == "INFO"
    del one["metadata"]["annotations"]
    with pytest.raises(NotInjectable, match="not ours"):
        injected("---\n".join(as_yaml(document) for document in (value, one)), incident_profile=True)


def test_what_its_owner_set_wins_and_is_told() -> None:
    own = "envFrom: [{configMapRef: {name: mine}}, {prefix: X_, configMapRef: {name: rankmuster-llm}}]"
    _, (value,), notes = made(with_container(f"env: [{{name: NCCL_DEBUG, value: INFO}}]\n          {own}"))
    (engine,) = engines(value)
    assert references(engine) == [STEADY, INCIDENT, "mine", INCIDENT]
    assert environment(engine)["NCCL_DEBUG"] == "INFO"
    told = " ".join(notes)
    assert "does not change it: NCCL_DEBUG" in told
    assert "its own envFrom" in told


def test_without_the_option_the_references_are_taken_out_again() -> None:
    text = injected(DEPLOYMENT, incident_profile=True).text
    value = documents(injected(text).text)[-1]
    (plain,) = documents(injected(DEPLOYMENT).text)
    (engine,), (as_before,) = engines(value), engines(plain)
    assert environment(engine) == environment(as_before)
    assert "envFrom" not in engine
    assert value["spec"]["template"]["metadata"] == plain["spec"]["template"]["metadata"]


def test_other_variables_roll_the_pods() -> None:
    def mark(**more: Any) -> str:
        value = documents(injected(DEPLOYMENT, incident_profile=True, **more).text)[-1]
        return str(value["spec"]["template"]["metadata"]["annotations"]["rankmuster.dev/steady-profile"])

    assert mark() == mark()
    assert mark() != mark(nccl=(2, 20))


def test_what_the_controller_does_not_know_keeps_its_profile_in_env() -> None:
    for text in (
        "kind: Job\nmetadata: {name: x}\nspec: {template: {spec: {containers: [{name: a}]}}}\n",
        LLM_INFERENCE_SERVICE.replace("name: deepseek,", f"name: {'deepseek' * 5},"),  # which KServe may cut
    ):
        maps, (value,), notes = made(text)
        assert maps == []
        assert "NCCL_DEBUG" in environment(engines(value)[0])
        assert any("no start of it gets" in one for one in notes)


def test_a_workload_without_a_name_and_an_odd_list_are_refused() -> None:
    with pytest.raises(NotInjectable, match=r"metadata\.name"):
        made(LWS.replace("name: llm, ", "generateName: llm-, "))
    with pytest.raises(NotInjectable, match="envFrom is no list"):
        made(with_container("envFrom: {a: b}"))


def test_names_are_never_those_of_another_workload() -> None:
    assert steady_config_map("llm") != profile_config_map("steady-llm")
    long = [steady_config_map("w" * 250 + end) for end in "ab"]
    assert len(set(long)) == 2
    assert all(len(one) <= MOST_NAME for one in long)


def test_the_command_has_it() -> None:
    done = command("--incident-profile", "-", stdin=DEPLOYMENT)
    assert done.returncode == 0, done.stderr
    assert [one["kind"] for one in documents(done.stdout)] == ["ConfigMap", "Deployment"]


# -- with the controller's part, on a cluster


def started(place: World) -> dict[str, dict[str, str]]:
    """UID of each pod from now on -> the variables of its engine when it began to run, filled as they come."""
    found: dict[str, dict[str, str]] = {}

    def told(_type: str, pod: dict[str, Any]) -> None:
        key = pod["metadata"]["uid"]
        if key not in found and (pod.get("status") or {}).get("phase") == "Running":
            engine = next(one for one in pod["spec"]["containers"] if one["name"] == "engine")
            found[key] = pod_files.environment(pod, engine, {}, place.cluster.store)

    place.cluster.store.subscribe("pods", told)
    return found


@pytest.mark.parametrize(
    ("kind", "manifest", "index"),
    [
        (WorkloadKind.LEADER_WORKER_SET, leader_worker_set(), "0"),
        (WorkloadKind.STATEFUL_SET, workload("StatefulSet", replicas=2, serviceName="llm"), None),
        (WorkloadKind.JOB_SET, job_set(failurePolicy={"maxRestarts": 5}), None),
    ],
    ids=lambda value: value.value if isinstance(value, WorkloadKind) else "",
)
def test_the_next_start_has_the_incidents_variables_and_the_one_after_it_the_steady_ones(
    kind: WorkloadKind, manifest: dict[str, Any], index: str | None
) -> None:
    wanted = incident_variables("another.name", "path_lost")
    assert wanted["NCCL_DEBUG_SUBSYS"]
    steady = {"NCCL_DEBUG_SUBSYS": "INIT,BOOTSTRAP,ENV,RAS", "TORCH_FR_BUFFER_SIZE": "2000"}
    with world() as place:
        seen = started(place)
        for one in documents(injected(as_yaml(manifest), incident_profile=True).text):
            place.cluster.store.create(one)
        first = set(place.settle(2).values())
        wish = StartWish(suspect="path_lost")
        profile = StartProfile(
            place.client, "serving", "llm", expected=lambda: wish, variables=lambda s: incident_variables("a.b", s)
        )

        def again(**more: Any) -> set[str]:
            before = set(place.uids().values())
            group = place.group(kind, index, **more)
            old = group.look(place.after(5)).incarnation
            assert old is not None
            assert group.terminate(old, "i/terminate", place.after(90)).ending is Ending.DONE
            assert group.start(old, "i/start", wish, place.after(90)).ending is Ending.DONE
            place.settle(2)
            if more:
                assert group.forget_profile(place.after(5)).ending is Ending.DONE
            now = set(place.uids().values())
            assert not now & before
            return now

        second, third = again(profile=profile), again()
        for pods, expected in ((first, steady), (second, wanted), (third, steady)):
            for uid in pods:
                has = seen[uid]
                ours = {name: value for name, value in expected.items() if name not in has or has[name] != value}
                assert ours.keys() <= {"RANKMUSTER_INSTANCE", "NCCL_RAS_ADDR"}, ours
                assert has["RANKMUSTER_INSTANCE"].startswith("serving.llm")
                assert has["POD_UID"] == uid
                assert has["NCCL_DEBUG_FILE"].endswith("/nccl_%h_%p.log")
        assert "TORCH_NCCL_EXTRA_DUMP_ON_EXEC" not in seen[next(iter(third))]
        assert len({one["NCCL_RAS_ADDR"] for one in seen.values()}) == 1
