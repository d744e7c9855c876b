"""`incident run --stop`: what hooks, or hands, give it; what cannot be used is said."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rankmuster.cli.incident_opening import opening_of, plain_json
from rankmuster.cli.status import CommandError
from rankmuster.incident.config import IncidentConfig, InstanceConfig

SETTINGS = IncidentConfig(instances={"llm-0": InstanceConfig()})


def stop(**more: Any) -> dict[str, Any]:
    return {
        "schema": "rankmuster.stop/1",
        "instance": "llm-0",
        "detected_at": time.time() - 5,
        "watch": {"progress": "stopped", "reason": "8 requests running"},
        **more,
    }


def opened(tmp_path: Path, document: object) -> Any:
    file = tmp_path / "stop.json"
    file.write_text(json.dumps(document))
    return opening_of(SETTINGS, None, file, None, None, "")


def test_a_verdict_that_cannot_be_read_is_said_and_reached_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened(tmp_path, stop(verdict={"a": 1})).verdict is None
    assert "the stop's verdict is no verdict" in capsys.readouterr().err


def test_a_bundle_that_is_not_here_is_said_and_collected_anew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert opened(tmp_path, stop(bundle=str(tmp_path / "gone\n"))).bundle is None
    assert "is not on this host" in capsys.readouterr().err
    assert opened(tmp_path, stop(bundle=str(tmp_path))).bundle == str(tmp_path)


def test_what_is_no_stop_says_where_it_came_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match=r"progress is idle.*nothing was done"):
        opened(tmp_path, stop(watch={"progress": "idle"}))
    for data, said in ((b"", "standard input is empty"), (b"{", "standard input holds no JSON"), (b"\xff", "no JSON")):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        with pytest.raises(CommandError, match=said):
            plain_json(Path("-"), 100, "stop")
