"""What a real runner wrote, as an operator reads it: the reports and metrics fit what is really in the journal."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

pytest.importorskip("sqlalchemy")

from incident_world import GPU_LOST, Memory, World
from rankmuster.metrics.incident_counts import IncidentMetrics
from rankmuster.metrics.registry import Registry
from rankmuster.model.incident import Outcome, RetestEnding, Step
from rankmuster.report import incident_html, incident_json, incident_markdown, incident_text
from rankmuster.report.incident_account import Account, account
from rankmuster.report.incident_impact import bundle_of, impact, saved, verdict_file
from rankmuster.report.incident_nodes import NodeState, node_accounts
from rankmuster.report.incident_standing import TrafficNow, standing
from run_incident import Ran, Rig


def told(ran: Ran) -> Account:
    return account(ran.incident.id, ran.events)


def everywhere(found: Account) -> str:
    """All forms of it; none raises."""
    now = found.events[-1].at + 1
    console = Console(file=io.StringIO(), width=120, color_system=None, highlight=False, emoji=False)
    incident_text.render(found, console, now=now)
    incident_html.render(found, now=now)
    incident_json.render(found, now=now)
    return incident_markdown.render(found, now=now) + console.file.getvalue()  # type: ignore[attr-defined]


def test_a_rebuilt_group_is_told_with_its_evidence_and_what_it_cost(tmp_path: Path) -> None:
    ran = Rig(tmp_path).run()
    found = told(ran)
    assert found.outcome is Outcome.RECOVERED
    assert standing(found, found.events[-1].at).traffic is TrafficNow.BACK
    cost = impact(found)
    assert cost.served_at is not None
    assert cost.terminated_at is not None
    assert bundle_of(found) is not None
    assert verdict_file(found) is not None
    assert {one.path for one in saved(found)} >= {bundle_of(found), verdict_file(found)}
    assert found.total_seconds is not None
    assert "served again" in everywhere(found)


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (RetestEnding.PASS, NodeState.LET_IN),
        (RetestEnding.FAIL, NodeState.QUARANTINED),
        (RetestEnding.ERROR, NodeState.FENCED),
    ],
)
def test_what_became_of_a_node_is_what_the_runner_did(tmp_path: Path, result: RetestEnding, state: NodeState) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST, results={"n2": result}))
    found = told(rig.run())
    (node,) = node_accounts(found)
    assert (node.node, node.state, node.retest) == ("n2", state, result)
    assert ("n2" in " ".join(standing(found, found.events[-1].at).todo)) == (state is not NodeState.LET_IN)
    everywhere(found)


def test_what_was_only_observed_is_told_line_by_line(tmp_path: Path) -> None:
    rig = Rig(tmp_path)
    found = told(rig.run(rig.world.tools(())))
    assert found.outcome is Outcome.OBSERVED
    terminate = found.of(Step.TERMINATE)
    assert terminate is not None
    assert terminate.actions[0].would
    assert standing(found, found.events[-1].at).traffic is TrafficNow.UNTOUCHED
    assert terminate.actions[0].would[0] in everywhere(found)


def test_the_metrics_count_what_the_runner_did(tmp_path: Path) -> None:
    rig = Rig(tmp_path, World(Memory(), elsewhere=True, found=GPU_LOST))
    registry = Registry()
    with rig.journal() as journal:
        metrics = IncidentMetrics(registry, journal)
        metrics.read(0.0)
        ran = rig.run()
        metrics.read(1e9)
        metrics.read(2e9)
    assert ran.incident.closed is Outcome.RECOVERED
    found = {
        (metric.name.removeprefix("rankmuster_incident_"), *sample.values): sample.value
        for metric, samples in registry.samples()
        for sample in samples
    }
    name = ran.incident.opening.instance
    assert found["rebuilds_total", name, "done"] == 1
    assert found["isolations_total", name, "done"] == 1
    assert found["retests_total", name, "pass"] == 1
    assert found["let_in_total", name] == 1
    assert found["quarantines_total", name] == 0
    assert found["closed_total", name, "recovered"] == 1
