"""instance.json: one bad field must not cost the rest, and must be named."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankmuster.evidence import instance
from rankmuster.evidence.blob import Blob, Reading
from rankmuster.model.instance import InstanceFacts
from rankmuster.model.problem import ProblemKind

CAPTURED: dict[str, Any] = {
    "instance": "llm-0",
    "world_size": 4,
    "last_look": 1795986537.3,
    "processes": [
        {"rank": 0, "pid": 6223, "host": "192.0.2.2", "gpu": 0, "exit_code": None, "exited_at": None},
        {"rank": 3, "pid": 6226, "host": "192.0.2.2", "gpu": 3, "exit_code": -9, "exited_at": 1795986512.8},
    ],
    "environment": {"NCCL_DEBUG": "INFO", "TORCH_FR_BUFFER_SIZE": 2000},
}
TEXT = json.dumps(CAPTURED, indent=1).encode()


def read(document: object) -> tuple[InstanceFacts, Reading]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    blob = Blob("instance.json", data)
    assert instance.recognises(blob)
    reading = instance.read(blob)
    (facts,) = reading.observations
    assert isinstance(facts, InstanceFacts)
    return facts, reading


def with_process(**changes: object) -> dict[str, object]:
    return {**CAPTURED, "processes": [{**CAPTURED["processes"][0], **changes}]}


def test_captured_facts():
    facts, reading = read(TEXT)
    assert (facts.instance, facts.world_size, facts.last_look) == ("llm-0", 4, 1795986537.3)
    alive, killed = facts.processes
    assert (alive.rank, alive.pid, alive.host, alive.gpu, alive.exit_code) == (0, 6223, "192.0.2.2", 0, None)
    assert (killed.rank, killed.exit_code, killed.exited_at) == (3, -9, 1795986512.8)
    assert facts.environment == {"NCCL_DEBUG": "INFO", "TORCH_FR_BUFFER_SIZE": "2000"}
    assert (reading.known, reading.problems) == (1, ())


@pytest.mark.parametrize("key", ["ranks", "procs"])
def test_other_names_for_the_processes(key: str):
    document = {**CAPTURED, key: CAPTURED["processes"]}
    del document["processes"]
    assert [p.rank for p in read(document)[0].processes] == [0, 3]


def test_processes_by_rank():
    assert read({**CAPTURED, "processes": {"2": {"pid": 7}}})[0].processes[0].rank == 2


def test_a_containers_exit_status_is_a_signal():
    (process,) = read(with_process(exit_code=137, exited_at="2026-11-29T21:08:32.8Z", reason="OOMKilled"))[0].processes
    assert (process.exit_code, process.exited_at, process.oom_killed) == (-9, 1795986512.8, True)
    assert process.note == "exit status 137 read as signal 9"


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"pid": "none"}, "pid"),
        ({"host": ["a"]}, "host"),
        ({"exited_at": "yesterday"}, "exited_at"),
        ({"exited_at": "2026-11-29 21:08:32"}, "exited_at"),  # no zone: not believed
        ({"exit_code": "crashed"}, "exit code"),
        ({"oom_killed": "yes"}, "oom_killed"),
    ],
)
def test_a_field_of_the_wrong_type_is_left_out_and_named(change: dict[str, object], field: str):
    facts, reading = read(with_process(**change))
    assert facts.processes[0].rank == 0
    (problem,) = reading.problems
    assert problem.kind is ProblemKind.CORRUPT
    assert "rank 0" in problem.message
    assert field in problem.message


@pytest.mark.parametrize("rank", [None, -1, True, "three", 1.5, 10**30, [0]])
def test_a_process_without_a_usable_rank_is_dropped_and_named(rank: object):
    facts, reading = read({**CAPTURED, "processes": [{"rank": rank, "pid": 7}, CAPTURED["processes"][1]]})
    assert [p.rank for p in facts.processes] == [3]
    assert "process 0 has no usable rank" in reading.problems[0].message


def test_a_rank_listed_twice_or_outside_the_world_is_named():
    processes = [{"rank": 0, "pid": 1}, {"rank": 0, "pid": 2}, {"rank": 9}]
    facts, reading = read({**CAPTURED, "processes": processes})
    assert [(p.rank, p.pid) for p in facts.processes] == [(0, 2), (9, None)]
    assert {p.message for p in reading.problems} == {
        "rank 0 is listed twice; the later entry was used",
        "rank 9 does not fit into a world of 4",
    }


def test_wrong_types_at_the_top():
    facts, reading = read({**CAPTURED, "world_size": "many", "processes": 3, "environment": []})
    assert (facts.world_size, facts.processes, facts.environment) == (None, (), {})
    assert len(reading.problems) == 3


def test_an_incarnation_with_parts_compares_equal_in_any_order():
    first = read({**CAPTURED, "incarnation": {"started": 1, "pods": ["a"]}})[0]
    second = read({**CAPTURED, "incarnation": {"pods": ["a"], "started": 1}})[0]
    assert first.incarnation == second.incarnation
    assert first.incarnation


def test_a_cut_file_keeps_its_whole_processes_and_says_how_many():
    cut = TEXT.index(b'"exit_code": -9')
    facts, reading = read(TEXT[:cut])
    assert [p.rank for p in facts.processes] == [0]  # not rank 3 as if it were still running
    assert reading.problems[0].kind is ProblemKind.DAMAGED
    assert "1 process(es)" in reading.problems[0].message


@pytest.mark.parametrize(
    "other",
    [
        {"nccl_version": "2.28.9", "communicators": [{"ranks": []}], "world_size": 4},
        {"version": "2.10", "pg_config": {}, "entries": [], "world_size": 4},
        {"schema": "rankmuster.verdict/1", "instance": "llm-0", "suspects": [], "processes": []},
        {"schema": "rankmuster.bundle/1", "look_times": {}, "instance": "llm-0", "ranks": {}},
        {"hello": 1},
        [CAPTURED],
    ],
)
def test_other_json_is_not_claimed(other: object):
    assert not instance.recognises(Blob("instance.json", json.dumps(other).encode()))


@given(st.integers(0, len(TEXT)), st.integers(0, len(TEXT)), st.binary(max_size=100))
@settings(max_examples=80, deadline=None)
def test_no_damage_raises(cut: int, start: int, noise: bytes):
    for damaged in (TEXT[:cut], TEXT[start:], TEXT[:cut] + noise + TEXT[start:], noise):
        assert isinstance(instance.read(Blob("x", damaged)), Reading)
        instance.recognises(Blob("x", damaged))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["instance", "world_size", "last_look", "processes", "environment", "incarnation"]), _JSON, _JSON
)
@settings(max_examples=100, deadline=None)
def test_no_type_of_any_field_raises(field: str, value: object, other: object):
    changed = {**CAPTURED, field: value}
    assert isinstance(instance.read(Blob("x", json.dumps(changed).encode())), Reading)
    for key in CAPTURED["processes"][0]:
        document = with_process(**{key: other})
        assert isinstance(instance.read(Blob("x", json.dumps(document).encode())), Reading)
