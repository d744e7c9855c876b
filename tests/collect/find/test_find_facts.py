"""`instance.json` as its reader understands it, whatever the instance is like."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from fake_proc import NOW, FakeProc, vllm

from rankmuster.collect.find.devices import Gpu
from rankmuster.collect.find.facts import instance_facts
from rankmuster.collect.target import Target
from rankmuster.evidence import instance
from rankmuster.evidence.blob import Blob
from rankmuster.model.instance import InstanceFacts


def read(target: Target) -> InstanceFacts:
    document = instance_facts(target, NOW)
    blob = Blob("instance.json", json.dumps(document).encode())
    assert instance.recognises(blob)
    reading = instance.read(blob)
    assert reading.problems == ()
    (facts,) = reading.observations
    assert isinstance(facts, InstanceFacts)
    return facts


@pytest.fixture
def fake(tmp_path: Path) -> FakeProc:
    return FakeProc(tmp_path / "proc")


def test_what_the_reader_makes_of_it(fake: FakeProc) -> None:
    environ = {"NCCL_DEBUG": "INFO", "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz", "RANKMUSTER_INSTANCE": "llm-0"}
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"], **environ)
    gpus = {103: (Gpu(4, "GPU-aa"),), 104: (Gpu(5, "GPU-bb"),)}
    (target,) = fake.find(gpu_processes=gpus).targets
    facts = read(target)
    assert (facts.instance, facts.world_size, facts.last_look) == ("llm-0", 2, NOW)
    assert facts.incarnation == target.incarnation
    assert facts.started_at == min(process.started_at for process in target.processes)
    assert [(p.rank, p.pid, p.host, p.gpu, p.gpu_uuid, p.exit_code) for p in facts.processes] == [
        (0, 103, "node0", 4, "GPU-aa", None),
        (1, 104, "node0", 5, "GPU-bb", None),
    ]
    assert facts.environment["NCCL_DEBUG"] == "INFO"
    assert "hf_" not in json.dumps(instance_facts(target, NOW))


def test_processes_without_a_rank_stand_apart(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0", "VLLM::Worker_TP1"])
    (target,) = fake.find().targets
    document = instance_facts(target, NOW)
    others = document["without_rank"]
    assert isinstance(others, list)
    assert {(entry["pid"], entry["role"], entry["state"]) for entry in others} == {
        (100, "server", "S"),
        (101, "helper", "S"),
        (102, "engine", "S"),
    }
    assert len(read(target).processes) == 2


def test_the_pid_is_the_one_that_nccl_and_torch_write(fake: FakeProc) -> None:
    own = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    fake.add(4711, 1, ["python", "t.py"], own, inner=[30, 7])
    (target,) = fake.find().targets
    assert read(target).processes[0].pid == 7


def test_how_a_dead_worker_ended(fake: FakeProc) -> None:
    vllm(fake, 100, "-tp", "2", workers=["VLLM::Worker_TP0"])
    fake.add(105, 102, comm="VLLM::Worker_TP", state="Z", exit_status=9)
    (target,) = fake.find().targets
    dead = read(target).processes[1]
    assert (dead.rank, dead.exit_code) == (1, -9)


def test_of_two_claimants_the_living_one_is_told(fake: FakeProc) -> None:
    own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1"}
    fake.add(100, 1, ["python", "launch.py"], own | {"RANK": "1"})
    fake.add(101, 100, ["python", "a.py"], own)
    fake.add(102, 100, ["python", "b.py"], own)
    for target in fake.find().targets:
        assert [process.rank for process in read(target).processes] == [0, 1]


def test_nodes_of_one_instance_do_not_contradict_each_other(tmp_path: Path) -> None:
    documents = []
    for node in range(2):
        fake = FakeProc(tmp_path / f"proc{node}")
        own = {"WORLD_SIZE": "2", "MASTER_ADDR": "h", "MASTER_PORT": "1", "TORCHELASTIC_RUN_ID": "r"}
        fake.add(100 + node, 1, ["python", "t.py"], own | {"RANK": str(node)}, start=10_000_000 * node)
        documents.append(instance_facts(fake.find().targets[0], NOW))
    first, second = documents
    for key in ("instance", "incarnation", "world_size"):
        assert first[key] == second[key]
    assert first["incarnation_here"] != second["incarnation_here"]


def test_an_incarnation_that_all_nodes_know_is_told(fake: FakeProc) -> None:
    own = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_PORT": "1", "RANKMUSTER_INCARNATION": "i-7"}
    fake.add(100, 1, ["python", "t.py"], own)
    assert read(fake.find().targets[0]).incarnation == "i-7"


def test_an_instance_without_any_rank(fake: FakeProc) -> None:
    fake.add(100, 1, ["/opt/tritonserver/bin/tritonserver"])
    facts = read(fake.find().targets[0])
    assert (facts.processes, facts.world_size) == ((), None)
