"""One diagnosis is of one incarnation."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from build_evidence import T0, instance

from rankmuster.diagnose.run import MixedInstances, diagnose
from rankmuster.evidence.blob import Blob
from rankmuster.evidence.bundle import gather


def test_two_instances_are_refused_with_both_named() -> None:
    mixed = gather(
        [
            replace(instance(name="llm-0"), path="a/instance.json"),
            replace(instance(name="llm-7"), path="b/instance.json"),
        ]
    )
    with pytest.raises(
        MixedInstances, match=r"2 instances .* llm-0 .* in a/instance.json and llm-7 .* in b/instance.json"
    ):
        diagnose(mixed)


def test_two_incarnations_of_one_instance_are_refused_too() -> None:
    mixed = gather([replace(instance(), path="a/instance.json"), replace(instance(world=2), path="b/instance.json")])
    with pytest.raises(MixedInstances, match="2 incarnations of one instance"):
        diagnose(mixed)


def test_two_looks_at_one_incarnation_are_one_and_the_last_counts() -> None:
    first = replace(instance(last_look=T0 + 5), path="a/instance.json")
    last = replace(instance(exits={1: (-9, T0 + 6)}, last_look=T0 + 20), path="b/instance.json")
    verdict = diagnose(gather([first, last])).verdict
    assert verdict.window.end == T0 + 20
    assert [suspect.rank for suspect in verdict.suspects if suspect.role.value == "culprit"] == [1]


def test_each_node_may_describe_its_own_ranks() -> None:
    whole = json.loads(instance().data)
    parts = []
    for name, ranks in (("a", (0, 1)), ("b", (2, 3))):
        part = {**whole, "processes": [p for p in whole["processes"] if p["rank"] in ranks]}
        parts.append(Blob(f"{name}/instance.json", json.dumps(part).encode()))
    assert [rank.rank for rank in diagnose(gather(parts)).job.ranks] == [0, 1, 2, 3]
