"""Who works on an incident: names that no two processes have."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rankmuster.cli.incident_runners import holder

pytest.importorskip("sqlalchemy")
from rankmuster.store.journal import Journal

SAY = "from rankmuster.cli.incident_runners import holder; print(holder('serve'))"


def test_two_services_of_one_host_do_not_take_the_lease_from_each_other(tmp_path: Path) -> None:
    other = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True, check=True).stdout.strip()
    with Journal.open(str(tmp_path / "journal.db")) as journal:
        assert journal.take_lease("llm-0", holder("serve"), 30.0) is not None
        assert journal.take_lease("llm-0", other, 30.0) is None


def test_process_1_of_two_containers_with_the_host_s_name_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.getpid", lambda: 1)
    assert holder("serve") != holder("serve")
