"""One diagnosis is of one incarnation."""

from __future__ import annotations

from dataclasses import replace

import pytest
from build_evidence import T0, instance

from rankmuster.diagnose.run import MixedInstances, diagnose
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
