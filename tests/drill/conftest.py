"""Jobs of the drill without torch."""

from __future__ import annotations

from pathlib import Path

import pytest
from drill_helpers import FAKE_RANK, MakeJob

from rankmuster.drill.job import DrillJob
from rankmuster.drill.plan import JobPlan


@pytest.fixture
def make_job(tmp_path: Path) -> MakeJob:
    def make(how: str = "serve", fault: str = "none", ranks: int = 3, culprit: int = 1) -> DrillJob:
        plan = JobPlan.small("drill-fake", ranks, fault=fault, culprit=culprit)
        return DrillJob(plan, {"FAKE": how}, tmp_path / "job", worker=FAKE_RANK)

    return make
