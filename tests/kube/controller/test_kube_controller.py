"""The controller over a simulated cluster: from a stop to a new incarnation, and everything that must not happen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kube_rig import INCIDENTS, POLICIES, Rig, group, policy, rig


@pytest.fixture
def made(tmp_path: Path) -> Iterator[Rig]:
    with rig(tmp_path) as one:
        yield one


def test_a_stopped_group_is_rebuilt_once_behind_a_closed_gate(made: Rig) -> None:
    made.store.create(group())
    made.store.create(policy(enable=["traffic", "group"], undecided="rebuild", traffic={"readinessGate": True}))
    with made.controller():
        made.until(lambda: made.ready(2))
        before = {one["metadata"]["uid"] for one in made.pods().values()}
        order: list[str] = []

        def told(type_: str, one: dict) -> None:  # type: ignore[type-arg]
            conditions = one.get("status", {}).get("conditions", ())
            closed = any(each["type"].endswith("/serving") and each["status"] == "False" for each in conditions)
            if closed and "closed" not in order:
                order.append("closed")
            if one["metadata"].get("deletionTimestamp") and "deleted" not in order:
                order.append("deleted")

        made.store.subscribe("pods", told)
        made.sidecars.stop(*before)
        incident = made.until(lambda: made.incident() if made.incident()["status"]["phase"] == "Closed" else None, 60)
        made.until(lambda: made.ready(2))
        assert incident["status"]["outcome"] == "recovered", incident["status"]
        assert order == ["closed", "deleted"]
        after = {one["metadata"]["uid"] for one in made.pods().values()}
        assert not after & before
        assert made.condition(incident, "Recovered") == ("True", "Recovered")
        assert incident["spec"]["instance"] == "prod.llm.0"
        assert {one["name"] for one in incident["spec"]["pods"]} == {"llm-0", "llm-0-1"}
        assert len(made.store.list(INCIDENTS, "prod")) == 1
        found = made.store.get(POLICIES, "prod", "llm")
        assert made.condition(found, "Accepted") == ("True", "Accepted")
