"""What is known besides the verdict: a file that is odd, old or huge takes nothing from recovery."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from incident_world import GPU_LOST, INSTANCE
from rankmuster.incident.config import IncidentConfig
from rankmuster.incident.facts import DRIFT_BYTES, facts_of, rank_hosts, systematic_drift


def report(scope: str = "systematic", kind: str = "bandwidth", *, stop: bool = False) -> str:
    finding = {"kind": kind, "scope": scope, "statement": "driver 555: 8 % slower on 24 nodes"}
    return json.dumps({"schema": "rankmuster.drift/1", "findings": [finding], "stop_rollout": stop, "summary": "stop"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (report(), True),
        (report(stop=True, kind="version"), True),
        (report(kind="version"), False),
        (report(scope="node"), False),
        (report(scope="node", stop=True), True),
    ],
)
def test_what_slows_a_whole_class_of_nodes_is_said(tmp_path: Path, text: str, *, said: bool) -> None:
    path = tmp_path / "drift.json"
    path.write_text(text)

    found, note = systematic_drift(path, time.time())

    assert (found is not None) is said
    assert note is None


@pytest.mark.parametrize("raw", [b"", b"[]", b"null", b"\xff\xfe", b"{" * 100_000, b'{"schema": "rankmuster.drift/1"}',
                                 b'{"schema": "x", "findings": []}'])  # fmt: skip
def test_what_is_no_report_is_a_note(tmp_path: Path, raw: bytes) -> None:
    path = tmp_path / "drift.json"
    path.write_bytes(raw)

    found, note = systematic_drift(path, time.time())

    assert found is None
    assert note is not None
    assert str(path) in note


def test_what_is_absent_old_or_huge_is_a_note(tmp_path: Path) -> None:
    path = tmp_path / "drift.json"
    assert "cannot be read" in str(systematic_drift(path, time.time())[1])
    path.write_text(report())
    os.utime(path, (1, 1))
    assert "days old" in str(systematic_drift(path, time.time())[1])
    with open(path, "wb") as file:
        file.truncate(DRIFT_BYTES + 1)
    assert "larger than" in str(systematic_drift(path, time.time())[1])


def test_ranks_are_on_the_hosts_that_the_verdict_names() -> None:
    assert rank_hosts(GPU_LOST) == {0: "n2"}
    assert rank_hosts(None) == {}


def test_facts_are_had_without_a_journal(tmp_path: Path) -> None:
    config = IncidentConfig(drift=tmp_path / "absent.json")

    facts, notes = facts_of(config, INSTANCE, None, time.time)(None, GPU_LOST)

    assert facts.systematic is None
    assert len(notes) == 1
