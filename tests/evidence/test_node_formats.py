"""What collectors on a node write: GPUs, ports, processes; cut, spliced and overwritten."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import gpu_facts, network_counters, node_facts
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.evidence.bundle import gather
from rankmuster.evidence.readers import all_readers
from rankmuster.model.network import NetworkTrack, PortKind
from rankmuster.model.node import NodeState, TaskState
from rankmuster.model.problem import ProblemKind
from rankmuster.model.topology import GpuFacts, NvlinkStatus

GPUS = {
    "schema": "rankmuster.gpus/1",
    "time": 1795986510.2,
    "host": "a1",
    "gpu_count": 2,
    "driver": {"Driver Version": "580.159.04"},
    "gpus": [
        {
            "index": 0,
            "uuid": "GPU-1",
            "bus_id": "0000:9b:00",
            "name": "H200",
            "facts": {"Fabric / State": "Completed"},
            "links": [
                {"link": 0, "state": "active", "speed_mb_per_s": 26562, "errors": {"dl_replay": 0}},
                {"link": 2, "state": "sleep", "errors": {"dl_crc": 7}},
            ],
        },
        {"index": 1, "bus_id": "0000:9c:00", "error": "GPU is lost"},
    ],
}
NODE = {
    "schema": "rankmuster.node/1",
    "host": "a1",
    "looks": [1795986510.0, 1795986513.0],
    "tasks": [
        {
            "pid": 100,
            "rank": 0,
            "role": "worker",
            "name": "Worker_TP0",
            "looks": [
                {"state": "S", "cpu_seconds": 5.0, "wchan": "futex"},
                {"state": "S", "cpu_seconds": 8.0, "threads": 3},
            ],
            "limits": {"memlock": "unlimited"},
        },
        {
            "pid": 101,
            "rank": 1,
            "looks": [{"state": "T"}, {"state": "Z", "exit_code": -9}],
            "limits": {"memlock": 65536},
        },
    ],
    "cgroups": [{"path": "/a", "time": 1795986510.0, "memory_max": 1000, "oom_kill": 2}],
    "shared_memory": [{"device": 1, "size_bytes": 67108864, "free_bytes": 0, "pids": [100]}],
    "pod": {"pod_name": "llm-0", "labels": {"app": "llm"}},
}
PORTS = [
    {"time": 1795986510.0, "host": "a1", "kind": "rdma", "device": "mlx5_0", "port": 1, "state": "4: ACTIVE"}
    | {"counters": {"port_xmit_data": 10, "link_downed": 0}},
    {"time": 1795986513.0, "host": "a1", "kind": "rdma", "device": "mlx5_0", "port": 1, "state": "1: DOWN"}
    | {"counters": {"port_xmit_data": 20}},
    {
        "time": 1795986510.0,
        "host": "a1",
        "kind": "ethernet",
        "device": "eth0",
        "port": None,
        "counters": {"tx_bytes": 5},
    },
]
T0 = 1795986510.0
LINES = "".join(json.dumps(row) + "\n" for row in PORTS)
SAMPLES = (json.dumps(GPUS).encode(), json.dumps(NODE, indent=1).encode(), LINES.encode())
READERS = (gpu_facts.READER, node_facts.READER, network_counters.READER)
QUICK = settings(max_examples=80, deadline=None)


def survives(data: bytes) -> None:
    for reader in READERS:
        blob = Blob("node-a1/x.json", data)
        assert isinstance(reader.recognises(blob), bool)
        reading = reader.read(blob)
        assert isinstance(reading, Reading)
        for observation in reading.observations:
            repr(observation)


def test_gpus_give_the_same_values_as_the_drivers_own_tool():
    reading = gpu_facts.read(Blob("topology/gpus.json", SAMPLES[0]))
    first, links, lost = reading.observations
    assert isinstance(first, GpuFacts)
    assert isinstance(links, NvlinkStatus)
    assert isinstance(lost, GpuFacts)
    assert (first.host, first.index, first.bus_id, first.uuid) == ("a1", 0, "0000:9b:00", "GPU-1")
    assert first.facts == {
        "Driver Version": "580.159.04",
        "Fabric / State": "Completed",
        "NVLink / Counted Links": "2",
        "NVLink / Link 2 / dl_crc": "7",
    }
    assert (links.gpu, links.links, links.note) == ("0", (26.562, None, None), "sleep")
    assert lost.facts["error"] == "GPU is lost"
    assert not reading.problems


def test_a_driver_without_gpus_is_still_a_driver():
    (facts,) = gpu_facts.read(Blob("x", json.dumps({**GPUS, "gpus": []}).encode())).observations
    assert isinstance(facts, GpuFacts)
    assert (facts.index, facts.facts) == (None, {"Driver Version": "580.159.04"})


def test_processes_have_a_state_at_each_look():
    reading = node_facts.read(Blob("platform/node.json", SAMPLES[1]))
    (state,) = reading.observations
    assert isinstance(state, NodeState)
    first, second = state.tasks
    assert first.always(TaskState.SLEEPING)
    assert first.cpu_share == pytest.approx(1.0)
    assert first.memlock_bytes == math.inf
    assert (first.seconds, first.threads) == (3.0, 3)
    assert [look.state for look in second.looks] == [TaskState.STOPPED, TaskState.ZOMBIE]
    assert (second.exit_code, second.memlock_bytes, second.cpu_share) == (-9, 65536.0, None)
    assert state.cgroups[0].oom_kills == 2
    assert state.facts == {"pod / pod_name": "llm-0", "pod / labels / app": "llm"}
    assert not reading.problems


def test_one_look_says_nothing_of_always():
    document = {**NODE, "looks": [1795986510.0]}
    (state,) = node_facts.read(Blob("x", json.dumps(document).encode())).observations
    assert isinstance(state, NodeState)
    assert not state.tasks[1].always(TaskState.STOPPED)


def test_a_bad_process_costs_only_itself():
    document = {**NODE, "tasks": [{"pid": "x"}, *NODE["tasks"], {"pid": 5, "looks": []}, 7]}  # type: ignore[misc]
    reading = node_facts.read(Blob("x", json.dumps(document).encode()))
    (state,) = reading.observations
    assert isinstance(state, NodeState)
    assert [task.pid for task in state.tasks] == [100, 101]
    assert {problem.kind for problem in reading.problems} == {ProblemKind.CORRUPT}


def test_a_cut_file_keeps_the_processes_before_the_cut():
    reading = node_facts.read(Blob("x", SAMPLES[1][: SAMPLES[1].index(b'"rank": 1')]))
    (state,) = reading.observations
    assert isinstance(state, NodeState)
    assert [task.pid for task in state.tasks] == [100]
    assert reading.problems[0].kind is ProblemKind.DAMAGED


def test_a_track_for_each_port_with_what_a_look_lacks_left_open():
    reading = network_counters.read(Blob("network-counters.jsonl", SAMPLES[2]))
    eth, rdma = reading.observations
    assert isinstance(eth, NetworkTrack)
    assert isinstance(rdma, NetworkTrack)
    assert (eth.kind, rdma.kind, rdma.port) == (PortKind.ETHERNET, PortKind.RDMA, 1)
    assert rdma.states == ("4: ACTIVE", "1: DOWN")
    assert rdma.counters["port_xmit_data"].tolist() == [10, 20]
    assert math.isnan(rdma.counters["link_downed"][1])
    assert rdma.bytes_of(sent=False) is None
    assert reading.known == 3


@pytest.mark.parametrize("bad", ['{"time": 1}', "[]", '{"kind": "rdma"', '{"kind": "tape", "device": "x", "time": 1}'])
def test_lines_that_are_no_look_are_counted(bad):
    reading = network_counters.read(Blob("x", f"{LINES}{bad}\n".encode()))
    assert reading.known == 3
    assert "1 line(s)" in reading.problems[0].message


@pytest.mark.parametrize(("sample", "reader"), list(zip(SAMPLES, READERS, strict=True)))
def test_no_other_reader_takes_it(sample, reader):
    evidence = gather([Blob("a", sample)])
    assert [source.readers for source in evidence.sources] == [(reader.name,)]
    assert not evidence.problems
    assert reader in all_readers()


@QUICK
@given(st.sampled_from(SAMPLES), st.integers(0, 1200))
def test_cut_anywhere(sample, at):
    survives(sample[:at])
    survives(sample[at:])


@QUICK
@given(st.binary(max_size=600))
def test_random_bytes(data):
    survives(data)


@QUICK
@given(st.sampled_from(SAMPLES), st.sampled_from(SAMPLES), st.integers(0, 900), st.integers(0, 900))
def test_two_inputs_spliced(a, b, i, j):
    survives(a[:i] + b[j:] + a[i:])


@QUICK
@given(st.sampled_from(SAMPLES), st.lists(st.tuples(st.integers(0, 1200), st.integers(0, 255)), max_size=12))
def test_bytes_overwritten(sample, flips):
    data = bytearray(sample)
    for at, value in flips:
        data[at % len(data)] = value
    survives(bytes(data))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@QUICK
@given(st.sampled_from((GPUS, NODE, *PORTS)), st.data())
def test_any_value_of_any_type(document, data):
    changed = json.loads(json.dumps(document))
    where = changed
    for _ in range(data.draw(st.integers(0, 3))):
        key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
        if not isinstance(where[key], (dict, list)) or not where[key]:
            break
        where = where[key]
    key = data.draw(st.sampled_from(sorted(where) if isinstance(where, dict) else range(len(where))))
    where[key] = data.draw(JSON)
    survives(json.dumps(changed).encode())


def test_a_look_whose_time_is_lost_does_not_lend_its_time_to_another():
    document = json.loads(SAMPLES[1])
    document["looks"] = ["?", 1795986513.0]
    (state,) = node_facts.read(Blob("x", json.dumps(document).encode())).observations
    assert isinstance(state, NodeState)
    assert state.looks == (1795986513.0,)
    assert [(look.time, look.state) for look in state.tasks[1].looks] == [(1795986513.0, TaskState.ZOMBIE)]


def test_looks_are_in_the_order_of_their_times():
    document = json.loads(SAMPLES[1])
    document["looks"].reverse()
    (state,) = node_facts.read(Blob("x", json.dumps(document).encode())).observations
    assert isinstance(state, NodeState)
    assert state.looks == (1795986510.0, 1795986513.0)
    assert [look.state for look in state.tasks[1].looks] == [TaskState.ZOMBIE, TaskState.STOPPED]


def test_names_of_counters_that_never_repeat_have_an_end():
    looks = [{**PORTS[0], "time": T0 + i, "counters": {f"c{i}_{k}": k for k in range(400)}} for i in range(20)]
    lines = "\n".join(json.dumps(look) for look in looks)
    (track,) = network_counters.read(Blob("x", lines.encode())).observations
    assert isinstance(track, NetworkTrack)
    assert len(track.counters) == network_counters.MAX_COUNTERS
