"""One of many incidents at once convicts no node of its own, however often that was suspected before."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from incident_world import STALL, Memory, World, opening
from rankmuster.incident import permits
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.limits import Limits
from rankmuster.model.incident import EventKind, Opening, Outcome, Permit, Step, UseKind
from rankmuster.store.journal import Journal
from run_incident import QUICK, Rig


def again(rig: Rig) -> Opening:
    """The second stall of a node; the first one was rebuilt."""
    rig.run()
    rig.world.found = replace(STALL, incarnation=None)
    return opening(incarnation=None, since=None)


def test_a_node_that_a_stall_suspects_again_is_fenced(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=STALL))
    rig.run(opening=again(rig))
    assert rig.world.state["fenced"] == ["n2"]


def test_not_so_where_limits_have_held_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(permits, "AGAIN_SECONDS", 0.1)
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=STALL))
    given = again(rig)
    rig.config = IncidentConfig(budget=QUICK, limits=Limits(rebuilds_at_once=1))
    others: list[str] = []

    def busy(journal: Journal, name: str) -> None:
        """Another instance is rebuilt, and is ready a moment later."""
        other, new = journal.open_incident(replace(given, instance="llm-9"), "b")
        lease = journal.take_lease("llm-9", "b", 30.0)
        assert new
        assert name != other
        assert lease is not None
        wanted = [(UseKind.REBUILD, "llm-9")]
        journal.reserve(other, lease, wanted, lambda _: Permit(allowed=True), 3600.0, given.at)
        others.append(other)

    def told(event: object) -> None:
        if getattr(event, "kind", None) is EventKind.STEP_BEGUN and getattr(event, "step", None) is Step.APPROVE:
            with rig.journal() as journal:
                journal.end_use(others[0], UseKind.REBUILD, "llm-9", given.at + 1)

    ran = rig.run(opening=given, beside=busy, told=told)

    assert ran.incident.closed is Outcome.RECOVERED, ran.notes()
    assert "1 instances are rebuilt now" in ran.notes()
    assert rig.world.state["fenced"] == [], ran.notes()
