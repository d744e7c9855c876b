"""Logs of a group that is gone are taken where somebody names them, and tell who ended first."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from log_scene import NOW, WATCHDOG, Taken, process, scene

from rankmuster.collect.collector import Scene
from rankmuster.collect.logs.left_given import LeftGiven
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.wishes import Wishes
from rankmuster.drill.engine_report import Failed, failure_table

RANKMUSTER = (sys.executable, "-m", "rankmuster.cli.main")


def nobody(*left: Path) -> Scene:
    wishes = Wishes(left=tuple(str(one) for one in left))
    return Scene(None, Machine(hostname="node0"), wishes, now=lambda: NOW)


def test_of_a_folder_what_is_called_like_a_log_is_taken_with_its_rank(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "old").mkdir(parents=True)
    (logs / "rank1.log").write_text(WATCHDOG.format(rank=1))
    (logs / "old" / "launcher.err").write_text("gone\n")
    (logs / "weights.bin").write_bytes(b"\0" * 100)
    taken = Taken(tmp_path, LeftGiven(), nobody(logs))
    assert taken.outcome.ending is Ending.DONE
    assert {piece.rank for piece in taken.pieces.values()} == {1, None}
    assert sorted(taken.pieces) == ["logs/launcher.err", "logs/rank1-rank1.log"]
    assert WATCHDOG.format(rank=1).encode() in taken.read("logs/rank1-rank1.log")


def test_a_file_is_taken_whatever_it_is_called(tmp_path: Path) -> None:
    (tmp_path / "output").write_text("what it said\n")
    taken = Taken(tmp_path, LeftGiven(), nobody(tmp_path / "output"))
    assert taken.read("logs/output") == b"what it said\n"


@pytest.mark.parametrize("what", ["absent", "pipe", "nothing named"])
def test_what_is_no_log_holds_nobody_up(what: str, tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    if what == "pipe":
        os.mkfifo(path)
    taken = Taken(tmp_path, LeftGiven(), nobody() if what == "nothing named" else nobody(path))
    assert taken.pieces == {}
    assert taken.outcome.ending in (Ending.NOTHING, Ending.FAILED)


def test_an_instance_that_lives_leads_to_its_logs_itself(tmp_path: Path) -> None:
    (tmp_path / "a.log").write_text("what it said\n")
    of = scene(process(0), wishes=Wishes(left=(str(tmp_path),)))
    assert Taken(tmp_path, LeftGiven(), of).pieces == {}


def test_the_command_counts_them_as_the_instances_and_diagnose_names_who_was_killed(tmp_path: Path) -> None:
    logs, bundle = tmp_path / "logs", tmp_path / "bundle"
    logs.mkdir()
    failed = [Failed(2, 4002, -9, NOW), Failed(1, 4001, 1, NOW + 1), Failed(0, 4000, 1, NOW + 1)]
    (logs / "launcher.log").write_text(failure_table(failed, "node0"))
    line = [*RANKMUSTER, "collect", "--instance", "gone-long-ago", "--left", str(logs), "--output", str(bundle)]
    done = subprocess.run([*line, "--deadline", "10", "--look", "0.5"], capture_output=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr.decode()
    assert b"root cause" in (bundle / "logs" / "launcher.log").read_bytes().lower()
    # this host's own kernel log may tell of anything
    only = tmp_path / "only" / "logs"
    only.parent.mkdir()
    (bundle / "logs").rename(only)
    told = subprocess.run(
        [*RANKMUSTER, "diagnose", str(only.parent), "--format", "json"], capture_output=True, timeout=60, check=False
    )
    verdict = json.loads(told.stdout)
    assert (verdict["class"], verdict["subclass"]) == ("process_or_device_lost", "killed")
    assert [one["rank"] for one in verdict["suspects"] if one["role"] == "culprit"] == [2]
