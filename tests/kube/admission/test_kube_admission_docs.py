"""The page of admission in clusters names every setting, phase and reason."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

from rankmuster.adapters.kube.job_shape import JobShape
from rankmuster.kube.admission.settings import AdmissionSettings
from rankmuster.kube.crd.admission import Phase

PAGE = (Path(__file__).parents[3] / "docs" / "kubernetes-admission.md").read_text(encoding="utf-8")


def test_every_setting_is_documented() -> None:
    table = PAGE.split("## Settings")[1].split("## Re-tests")[0]
    for name in [field.name for field in fields(AdmissionSettings) if field.name != "job"]:
        assert f"`{name}`" in table
    for name in [field.name for field in fields(JobShape)]:
        assert f"`job.{name}`" in table


def test_every_phase_is_documented() -> None:
    for phase in Phase:
        assert f"| `{phase.value}` |" in PAGE
