"""Public problem reports, rebuilt in small: the verdict names the kind of fault, and its words name the cure.

Each folder of `reports/` holds what such a report quotes (other names and addresses) and `truth.json`: the classes that
fit, the ranks that may be named as culprits, sub-kinds where they are sure, and patterns that the verdict's own
statements must contain. They come from issues of NCCL, nccl-tests, PyTorch, vLLM, SGLang, TensorRT-LLM and the GPU
drivers, whose log formats the readers name as their sources.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rankmuster.diagnose.run import diagnose
from rankmuster.evidence.bundle import load
from rankmuster.model.fault import Role
from rankmuster.model.verdict import Verdict
from wording import slips

REPORTS = sorted(path.parent for path in (Path(__file__).parent / "reports").glob("*/truth.json"))


def culprits(verdict: Verdict) -> list[int]:
    return sorted(s.rank for s in verdict.suspects if s.role is Role.CULPRIT and s.rank is not None)


def words(verdict: Verdict) -> str:
    """Everything that the verdict says itself; raw evidence and the rows of planes aside."""
    parts = [verdict.summary, *(finding.statement for finding in verdict.findings), *(s.why for s in verdict.suspects)]
    return "\n".join(part for part in parts if part)


def test_there_are_reports() -> None:
    assert len(REPORTS) > 25


@pytest.mark.parametrize("report", REPORTS, ids=lambda path: path.name)
def test_the_verdict_fits_the_report(report: Path) -> None:
    truth = json.loads((report / "truth.json").read_text())
    verdict = diagnose(load(report / "input")).verdict
    assert verdict.class_.value in truth["accept_class"], verdict.summary
    named = culprits(verdict)
    if "culprits" in truth:
        assert named == sorted(truth["culprits"])
    assert set(named) <= set(truth.get("culprits_allowed", named))
    if "subclass" in truth:
        assert verdict.subclass is not None
        assert verdict.subclass.value in truth["subclass"]
    said = words(verdict)
    missing = [pattern for pattern in truth["mentions"] if not re.search(pattern, said)]
    assert not missing, said
    assert slips(verdict) == []
