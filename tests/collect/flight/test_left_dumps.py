"""Dumps of ranks none of which lives any more, found by the settings of who started them."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from flight_job import Job, dump

from rankmuster.collect.outcome import Ending
from rankmuster.collect.sink import Store
from rankmuster.collect.target import Role


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "bundle")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    made = Job(tmp_path / "root", started_at=time.time() - 60)
    made.add(os.getpid(), None, role=Role.SERVER)
    return made


def test_what_the_watchdogs_wrote_is_taken(job: Job, store: Store) -> None:
    for rank in range(3):
        job.file(rank).write_bytes(dump(time.time() - 10))
    job.world_size = 2  # the third is of somebody else's job
    outcome, taken = job.collect(store)
    assert sorted(taken) == ["flight/nccl_trace_rank_0", "flight/nccl_trace_rank_1"]
    assert (outcome.ending, outcome.warnings) == (Ending.DONE, ())
    assert "2 dump(s) that ranks 0, 1 left" in outcome.note
    assert {piece.host for piece in store.pieces()} == {None}


def test_an_earlier_runs_are_named_and_left(job: Job, store: Store) -> None:
    job.file(0).write_bytes(dump(time.time() - 3600))  # copied since: its entries tell
    outcome, taken = job.collect(store)
    assert taken == {}
    assert outcome.ending is Ending.NOTHING
    assert "none has left a dump of this run at /dumps/trace_<rank>" in outcome.note
    assert "earlier run" in outcome.warnings[0]


def test_no_dump_and_rubbish(job: Job, store: Store) -> None:
    job.file(0).write_bytes(b"rubbish")
    os.mkfifo(job.file(1))
    outcome, taken = job.collect(store)
    assert (outcome.ending, taken) == (Ending.NOTHING, {})
    assert any("is no dump" in warning for warning in outcome.warnings)


def test_torchs_own_place_is_taken_with_a_warning(tmp_path: Path, store: Store) -> None:
    job = Job(tmp_path / "root", started_at=time.time() - 60)
    job.environ = {"HOME": "/home/x"}
    job.add(os.getpid(), None, role=Role.LAUNCHER)
    folder = job.root / "home/x/.cache/torch"
    folder.mkdir(parents=True)
    (folder / "comm_lib_trace_rank_5").write_bytes(dump(time.time() - 10))
    outcome, taken = job.collect(store)
    assert list(taken) == ["flight/nccl_trace_rank_5"]
    assert "another job of this user" in outcome.warnings[0]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_another_users_are_left(job: Job, store: Store) -> None:
    job.file(0).write_bytes(dump(time.time() - 10))
    os.chown(job.file(0), 12_345, -1)
    outcome, taken = job.collect(store)
    assert taken == {}
    assert "belongs to user 12345" in outcome.warnings[0]
