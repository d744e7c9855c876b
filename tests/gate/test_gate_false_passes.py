"""What must not pass: each was let through once by a careless reading of the evidence."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from test_gate_items import DAY, NOW, answer, checklist, said

from gate_world import DIGEST, ENVIRONMENT, World, fingerprint, score_card, workload, world
from rankmuster.gate.artefact import artefact_of
from rankmuster.gate.cover import objections
from rankmuster.gate.facts import Measured
from rankmuster.gate.items.benchmarks import _near
from rankmuster.gate.recording import _seen
from rankmuster.gate.workload import NotDeployable, workload_of
from rankmuster.model.benchmark import Operation, Step
from rankmuster.model.release import Item, ItemState


@pytest.fixture
def made(tmp_path: Path) -> World:
    return world(tmp_path, NOW)


def container(document: Any) -> dict[str, Any]:
    found: dict[str, Any] = document["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"]["containers"][1]
    return found


def deploy(made: World, change: Callable[[dict[str, Any]], object], *more: Any) -> None:
    document = workload()
    change(document)
    (made.folder / "llm.yaml").write_text(yaml.safe_dump_all([document, *more], sort_keys=False))


def env(*entries: dict[str, Any]) -> Callable[[dict[str, Any]], object]:
    return lambda document: container(document)["env"].extend(entries)


UNSEEN: dict[str, Callable[[dict[str, Any]], object]] = {
    "the command": lambda one: container(one).update(
        command=["bash", "-c", "export NCCL_ALGO=Tree; exec vllm serve m"]
    ),
    "a Secret": env({"name": "NCCL_ALGO", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}),
    "a reference to nothing": env({"name": "NCCL_ALGO", "value": "$(NOT_HERE)", "valueFrom": {"secretKeyRef": {}}}),
    "envFrom": lambda one: container(one).update(envFrom=[{"configMapRef": {"name": "cm"}}]),
    "a file of NCCL's": lambda one: container(one)["volumeMounts"].append({"name": "c", "mountPath": "/etc/nccl.conf"}),
}


@pytest.mark.parametrize("name", UNSEEN)
def test_what_sets_variables_unseen_passes_nothing(made, name):
    deploy(made, UNSEEN[name])
    assert answer(made, Item.ARTEFACT).state is ItemState.FAIL
    # and an approval without it is not of a workload with it
    release = artefact_of("llm-0", read(workload()), (), None, None)
    assert objections(release, workload_of((made.folder / "llm.yaml").read_bytes(), "now"), ())


def read(document: Any) -> Any:
    return workload_of(yaml.safe_dump(document, sort_keys=False).encode(), "llm.yaml")


def test_what_a_reference_resolves_to_is_compared(made):
    deploy(made, lambda one: container(one)["env"].__setitem__(slice(0, 0), _two("Tree")))
    assert "NCCL_ALGO was not set in the recording" in said(answer(made, Item.ARTEFACT))
    ring, tree = workload(), workload()
    container(ring)["env"][:0], container(tree)["env"][:0] = _two("Ring"), _two("Tree")
    assert objections(artefact_of("llm-0", read(ring), (), None, None), read(tree), ())


def _two(value: str) -> list[dict[str, str]]:
    return [{"name": "ALGO", "value": value}, {"name": "NCCL_ALGO", "value": "$(ALGO)"}]


def test_an_address_that_only_the_pod_has_is_no_loopback(made):
    made.deploy(NCCL_RAS_ADDR="$(POD_IP):28163")
    assert not answer(made, Item.RAS).state.lets_through


def test_a_compose_service_has_an_image_and_files(made):
    service = {"image": "vllm/vllm-openai:latest", "env_file": ["other.env"], "environment": ENVIRONMENT}
    (made.folder / "llm.yaml").write_text(yaml.safe_dump({"services": {"vllm": service}}))
    found = said(answer(made, Item.ARTEFACT))
    assert "is a tag" in found
    assert "env_file" in found


def test_no_pod_of_an_instance_is_left_out():
    document = workload()
    template = document["spec"]["leaderWorkerTemplate"]
    template["leaderTemplate"] = {
        "spec": {"containers": [{"name": "a", "image": "x:1"}, {"name": "b", "image": "y:1"}]}
    }
    with pytest.raises(NotDeployable, match="several in a pod"):
        read(document)
    with pytest.raises(NotDeployable, match="no container is called wroker"):
        workload_of(yaml.safe_dump(workload()).encode(), "llm.yaml", ["vllm", "wroker"])
    two = workload()
    two["spec"]["leaderWorkerTemplate"]["leaderTemplate"] = {
        "spec": {"containers": [{"name": "leader", "resources": {"limits": {"nvidia.com/gpu": 1}}}]}
    }
    with pytest.raises(NotDeployable, match="asks for GPUs, and is not among"):
        workload_of(yaml.safe_dump(two).encode(), "llm.yaml", ["vllm"])


def test_a_sidecar_with_gpus_is_an_engine_too(made):
    side = {"name": "side", "image": "x:1", "restartPolicy": "Always", "resources": {"limits": {"nvidia.com/gpu": 4}}}
    deploy(
        made, lambda one: one["spec"]["leaderWorkerTemplate"]["workerTemplate"]["spec"].update(initContainers=[side])
    )
    assert "x:1 is a tag" in said(answer(made, Item.ARTEFACT))


def _deployment(name: str, algo: str) -> dict[str, Any]:
    one = {"name": "vllm", "image": f"v@{DIGEST}", "env": [{"name": "NCCL_ALGO", "value": algo}]}
    one["resources"] = {"limits": {"nvidia.com/gpu": 1}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"template": {"spec": {"containers": [one]}}},
    }


def test_two_objects_of_one_shape_are_two():
    both = yaml.safe_dump_all([_deployment("prefill", "Ring"), _deployment("decode", "Ring")]).encode()
    release = artefact_of("llm", workload_of(both, "a"), (), None, None)
    assert objections(release, workload_of(both, "a"), ()) == ()
    half = yaml.safe_dump(_deployment("other", "Ring")).encode()
    assert len(objections(release, workload_of(half, "a"), ())) == 3
    changed = yaml.safe_dump_all([_deployment("prefill", "Ring"), _deployment("decode", "Tree")]).encode()
    assert any("Tree" in one for one in objections(release, workload_of(changed, "a"), ()))


def test_one_digest_is_of_one_image(made):
    document = workload()
    container(document)["image"] = "vllm/vllm-openai:latest"
    leader = _deployment("leader", "Ring")
    leader["spec"]["template"]["spec"]["containers"][0]["image"] = "leader/other:v9"
    (made.folder / "llm.yaml").write_text(yaml.safe_dump_all([document, leader]))
    release = yaml.safe_load(made.config.read_text())["release"]
    made.settings(release={**release, "digest": DIGEST})
    assert "2 images without one" in said(answer(made, Item.ARTEFACT))


def test_another_size_or_command_is_not_what_was_approved():
    release = artefact_of("llm-0", read(workload()), (), None, None)
    fewer, other = workload(), workload()
    container(fewer)["resources"]["limits"]["nvidia.com/gpu"] = 2
    container(other)["command"].append("--tensor-parallel-size=2")
    assert "GPUs: '4' -> '2'" in objections(release, read(fewer), ())[0]
    assert objections(release, read(other), ())


def test_evidence_of_another_release_proves_nothing(made):
    made.instance(lambda facts: facts.update(instance="another-model"))
    assert "the recording is of 'another-model'" in said(answer(made, Item.ARTEFACT))
    assert not answer(made, Item.RAS).state.lets_through


def test_without_a_recording_nobody_knows_whether_it_is_of_this(made):
    made.settings(bundle=None)
    assert answer(made, Item.ARTEFACT).state is ItemState.UNKNOWN


def test_what_is_yet_to_come_proves_nothing(made):
    past = NOW - 4000 * DAY
    assert "yet to come" in said(answer(made, Item.ARTEFACT, past))
    made.card(made_at=NOW + 9e7)
    assert "yet to come" in said(answer(made, Item.DRILL))


def test_the_hosts_of_the_recording_are_the_nodes(made):
    made.instance(lambda facts: [one.update(host="elsewhere") for one in facts["processes"]])
    assert "elsewhere" in said(answer(made, Item.FINGERPRINTS))
    assert answer(made, Item.FINGERPRINTS).state is ItemState.FAIL


CARDS: dict[str, dict[str, str]] = {
    "nothing is said of the drilled job": {},
    "it had an algorithm of its own": {"NCCL_NVLS_ENABLE": "0", "NCCL_ALGO": "Tree"},
    "it dumped where the release does not": {"NCCL_NVLS_ENABLE": "0", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"},
}


@pytest.mark.parametrize("name", CARDS)
def test_a_drill_under_other_settings_is_none(made, name):
    made.card(settings=CARDS[name])
    assert not answer(made, Item.DRILL).state.lets_through
    assert not answer(made, Item.RECORDER_DRILL).state.lets_through


@pytest.mark.parametrize(
    "setting", [{"TORCH_NCCL_DUMP_ON_TIMEOUT": "0"}, {"TORCH_NCCL_ENABLE_MONITORING": "maybe"}, {"NCCL_DEBUG": "INF"}]
)
def test_settings_that_lose_evidence_pass_nowhere(made, setting):
    made.deploy(**setting)
    made.instance(lambda facts: facts["environment"].update(setting))
    made.card(settings={**score_card(fingerprint(), NOW).settings, **setting})
    assert not checklist(made).passed


def test_a_class_with_other_settings_is_another_class(made):
    made.deploy(NCCL_NVLS_ENABLE=None)
    assert answer(made, Item.FINGERPRINTS).state is ItemState.FAIL
    assert "NCCL_NVLS_ENABLE" in said(answer(made, Item.ARTEFACT))


def _history(made: World, statement: str) -> None:
    import sqlite3

    with sqlite3.connect(made.folder / "history.db") as database:
        database.execute(statement)


def test_an_admission_that_was_provisional_is_no_pass(made):
    _history(made, "update rankmuster_admission set decision = 'provisional'")
    assert answer(made, Item.READMISSION).state is ItemState.UNKNOWN


def test_benchmarks_of_years_ago_prove_nothing_of_today(made):
    later = NOW + 100 * DAY
    assert "was last measured" in said(answer(made, Item.BENCHMARKS, later))


def test_a_reduction_of_another_type_is_another_operation():
    def near(operation: Operation, dtype: str) -> bool:
        return _near(
            frozenset({Measured(operation, 1 << 20, 8, "int8")}), Step(operation, (1 << 20,), dtype), 1 << 20, 8
        )

    assert not near(Operation.ALL_REDUCE, "bfloat16")
    assert near(Operation.ALL_REDUCE, "int8")
    assert near(Operation.ALL_GATHER, "bfloat16"), "bytes are bytes"


def test_a_history_that_was_changed_decides_nothing(made):
    _history(made, "update rankmuster_cell set dtype = 'int8'")
    assert answer(made, Item.BENCHMARKS).state is ItemState.UNKNOWN


def test_a_runbook_of_something_else_is_none(made):
    made.incident(lambda settings: settings["instances"].update(zzz=settings["instances"].pop("llm-0")))
    assert answer(made, Item.RUNBOOK).state is ItemState.UNKNOWN
    policy = {
        "kind": "CommunicationPolicy",
        "metadata": {"name": "p", "namespace": "elsewhere"},
        "spec": {"selector": {"matchLabels": {"app": "llm"}}, "enable": ["traffic"]},
    }
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    made.settings(runbook="policy.yaml")
    assert "does not govern" in said(answer(made, Item.RUNBOOK))
    policy["metadata"].pop("namespace")
    policy["spec"]["selector"]["matchLabels"] = {"app": "other"}
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    assert "does not govern" in said(answer(made, Item.RUNBOOK))
    (made.folder / "policy.yaml").write_text(yaml.safe_dump(policy) + "---\nbroken: [")
    assert "no sound YAML" in said(answer(made, Item.RUNBOOK))


def test_a_pid_of_another_host_is_another_process():
    assert not _seen("hostB", 100, {("10.0.0.1", 100)}, several=True)
    assert _seen("hostB", 100, {("hostB", 100)}, several=True)
    assert _seen("node7", 100, {("10.0.0.1", 100)}, several=False), "one host, named in two ways"
    assert not _seen("node7", None, {("10.0.0.1", 100)}, several=False)


def test_a_unit_can_pass_with_its_percent_signs(made):
    values = {**ENVIRONMENT, "NCCL_DEBUG_FILE": "/var/log/llm-0/nccl_%%h_%%p.log"}
    lines = "".join(f'Environment="{name}={value}"\n' for name, value in values.items())
    found = workload_of(f"[Service]\nExecStart=/usr/bin/vllm serve m\n{lines}".encode(), "llm.service")
    assert not found.deployed[0].dark
    assert found.deployed[0].given.values["NCCL_DEBUG_FILE"].endswith("nccl_%h_%p.log")


def test_a_tab_within_a_value_is_kept_or_refused():
    with pytest.raises(NotDeployable, match="no sound YAML"):
        workload_of(b'kind: Pod\n\t# tab\nspec: {containers: [{name: a, env: [{name: NCCL_A, value: "x\ty"}]}]}', "a")


def test_keys_that_are_no_text_are_refused():
    document = {"kind": "Pod", "metadata": {"name": "a"}, 1.5: {"spec": {"containers": [{"name": "a", "image": "x"}]}}}
    with pytest.raises(NotDeployable, match="no text"):
        read(document)


def test_the_last_good_release_is_another_one(tmp_path):
    from test_gate_records import NAME, approval, chained

    from rankmuster.gate.records import FolderRecords

    place = FolderRecords(tmp_path)
    first, *_ = chained(place, approval(NCCL_A="1"), approval(NCCL_A="2"), approval("again", NCCL_A="2"))
    assert place.chain(NAME).last_good == first


def test_a_number_is_a_number_before_it_is_a_hash(tmp_path):
    from test_gate_records import NAME, approval, chained

    from rankmuster.gate.chain import NoSuchRecord
    from rankmuster.gate.records import FolderRecords

    place = FolderRecords(tmp_path)
    made = chained(place, *(approval(str(number)) for number in range(12)))
    chain = place.chain(NAME)
    assert [chain.approval(str(number)) for number in range(1, 13)] == made
    with pytest.raises(NoSuchRecord):
        chain.approval("30")


def test_a_full_disk_or_an_odd_file_does_not_lock_the_chain(tmp_path, monkeypatch):
    import os

    from test_gate_records import NAME, approval

    from rankmuster.gate.chain import next_record
    from rankmuster.gate.records import FolderRecords, RecordsUnusable

    place = FolderRecords(tmp_path)
    record = next_record(place.chain(NAME), approval())
    real = os.fsync

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordsUnusable, match="No space left"):
        place.add(record)
    monkeypatch.setattr(os, "fsync", real)
    assert list((tmp_path / NAME).iterdir()) == []
    place.add(record)
    os.mkfifo(tmp_path / NAME / "0002.json")
    with pytest.raises(RecordsUnusable, match=r"0002\.json"):
        place.chain(NAME)
    (tmp_path / "llm-9").write_text("a file")
    with pytest.raises(RecordsUnusable):
        place.chain("llm-9")
