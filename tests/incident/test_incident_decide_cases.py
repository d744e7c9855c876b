"""The captured cases and rebuilt reports, from their evidence to what would be done about them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.incident.decide import DecideSettings, Facts, decide
from rankmuster.incident.facts import rank_hosts
from rankmuster.model.fault import Boundary, Confidence, FaultClass, Progress, Role
from rankmuster.model.incident import Course, Decision, OpenedBy, Opening
from rankmuster.model.verdict import Verdict

TESTS = Path(__file__).parent.parent
CASES = sorted(path.parent for path in TESTS.glob("*/*/truth.json") if path.parent.parent.name in ("cases", "reports"))
UNDECIDED = (FaultClass.HEALTHY, FaultClass.INCONCLUSIVE, FaultClass.BLIND)


def decided(found: Verdict, *, stopped: bool) -> Decision:
    """As a watch would open it that says stopped; or what the verdict itself says."""
    progress = Progress.STOPPED if stopped else found.progress
    by = OpenedBy.SLOW if progress is Progress.SLOW else OpenedBy.STOPPED
    opening = Opening(instance="i", incarnation=None, by=by, progress=progress, at=1.0)
    return decide(found, opening, Facts(rank_hosts=rank_hosts(found), elsewhere=True), DecideSettings())


@pytest.mark.parametrize("case", CASES, ids=lambda path: f"{path.parent.name}-{path.name}")
def test_the_boundary_is_that_of_the_case_and_no_victim_pays(case: Path) -> None:
    truth = json.loads((case / "truth.json").read_text())
    packed = case / "input.tar.zst"
    found = diagnose(load(packed if packed.exists() else case / "input")).verdict
    weak = found.confidence in (None, Confidence.POSSIBLE)
    named = {one.host for one in found.suspects if one.role is not Role.VICTIM} | set(found.suspect_hosts)
    for stopped in (True, False):
        made = decided(found, stopped=stopped)
        assert made.table.value in truth.get("boundary", [made.table.value])
        assert {*made.fence, *made.retest} <= named
        if len(found.suspect_hosts) > 1 and not any(one.role is Role.CULPRIT for one in found.suspects):
            assert made.fence == (), "nothing tells which end it is"
        if found.class_ in UNDECIDED or (weak and found.progress is not Progress.SLOW):
            assert made.course in (Course.HOLD, Course.RESTORE, Course.SHED)
        elif stopped and found.class_ is not FaultClass.PERFORMANCE_DEGRADATION:
            assert made.course is Course.REBUILD
            assert made.boundary in (made.table, Boundary.PROCESS_GROUP)
        elif found.progress is Progress.SLOW:
            assert made.course in (Course.SHED, Course.HOLD), "what is slow is not rebuilt"


def test_there_are_cases_and_reports() -> None:
    assert len(CASES) > 150
