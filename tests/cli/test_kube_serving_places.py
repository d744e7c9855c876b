"""Which journal and history a controller works with: two that do not share them act twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from rankmuster.cli.kube_serving import history_of, journal_of
from rankmuster.kube.controller.settings import ControllerSettings

SECRET = "postgresql://u@db/incidents"


def test_the_settings_then_the_secret_then_the_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANKMUSTER_JOURNAL", "RANKMUSTER_HISTORY"):
        monkeypatch.delenv(name, raising=False)
    folder = ControllerSettings(folder=Path("/f"))
    assert (journal_of(folder), history_of(folder)) == ("/f/incidents.db", "/f/history.db")
    for name in ("RANKMUSTER_JOURNAL", "RANKMUSTER_HISTORY"):
        monkeypatch.setenv(name, SECRET)
    assert (journal_of(folder), history_of(folder)) == (SECRET, SECRET)
    named = ControllerSettings(journal="/j", history="/h")
    assert (journal_of(named), history_of(named)) == ("/j", "/h")


def test_a_dry_run_leaves_alone_what_the_shell_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKMUSTER_JOURNAL", SECRET)
    assert journal_of(ControllerSettings(folder=Path("/f"), dry_run=True)) == "/f/incidents.db"
