"""Dumps of a live instance: what a watchdog wrote is taken first, then each rank is asked, and nobody is waited for."""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from flight_job import HEALTHY, STOPPED, UNKNOWN, Job, dump, json_dump, pieces

from rankmuster.collect.collector import Scene
from rankmuster.collect.deadline import Deadline
from rankmuster.collect.flight import told
from rankmuster.collect.flight.decide import Decision
from rankmuster.collect.flight.files import DumpFiles
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.sink import SinkFull, Store
from rankmuster.collect.wishes import DumpWish, Wishes
from rankmuster.evidence import dump_requests
from rankmuster.evidence.blob import Blob
from rankmuster.model.flight import DumpRequest


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "bundle")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "root")


def path(rank: int) -> str:
    return f"flight/nccl_trace_rank_{rank}"


def test_every_rank_is_asked_and_its_dump_taken(job: Job, store: Store) -> None:
    with job.torch({0: "answer", 1: "slow"}):
        outcome, taken = job.collect(store)
    assert outcome.ending is Ending.DONE, outcome
    assert sorted(taken) == [path(0), path(1)]
    for piece in store.pieces():
        if piece.rank is not None:
            assert piece.look_time == pytest.approx(job.file(piece.rank).stat().st_mtime)
            assert piece.host == "a7"


def test_it_is_written_down_who_was_asked_when_and_when_the_dump_came(job: Job, store: Store) -> None:
    before = time.time()
    with job.torch({0: "answer", 1: "never"}):
        job.collect(store, seconds=2.0)
        written = job.file(0).stat().st_mtime
    reading = dump_requests.read(Blob("asked.json", (store.folder / "flight" / "asked.json").read_bytes()))
    asked = {one.rank: one for one in reading.observations if isinstance(one, DumpRequest)}
    assert sorted(rank for rank in asked if rank is not None) == [0, 1]
    assert asked[1].written is None
    assert before - 1 <= asked[0].asked <= written + 0.01
    assert asked[0].written == pytest.approx(written, abs=0.01)


@pytest.mark.parametrize("mode", ["halves", "midway"])
def test_a_file_that_is_still_being_written_is_read_again(job: Job, store: Store, mode: str) -> None:
    with job.torch({0: mode}):
        outcome, taken = job.collect(store)
        assert taken == {path(0): job.file(0).read_bytes()}
    assert (outcome.ending, outcome.warnings) == (Ending.DONE, ())


def test_a_file_that_never_gets_whole_is_kept_as_it_is_and_said(job: Job, store: Store) -> None:
    with job.torch({0: "half"}):
        outcome, taken = job.collect(store, seconds=1.5)
    assert outcome.ending is Ending.PARTIAL
    assert len(taken[path(0)]) > 0
    assert "not whole" in outcome.warnings[0]


def test_a_rank_that_does_not_answer_costs_no_more_than_the_deadline(job: Job, store: Store) -> None:
    begun = time.monotonic()
    with job.torch({0: "answer", 1: "never"}):
        outcome, taken = job.collect(store, seconds=1.5)
    assert time.monotonic() - begun < 10
    assert list(taken) == [path(0)]
    assert outcome.ending is Ending.PARTIAL
    assert "rank 1: asked through its pipe, and no dump had come" in outcome.note


def test_a_rank_that_dies_when_asked_is_not_waited_for(job: Job, store: Store) -> None:
    with job.torch({0: "die"}):
        outcome, _ = job.collect(store, seconds=60)
    assert outcome.ending is Ending.FAILED
    assert "and then its process" in outcome.note


def test_a_frozen_rank_is_not_asked_and_not_woken(job: Job, store: Store) -> None:
    with job.torch({0: "answer", 1: "answer"}) as children:
        children[1].send_signal(signal.SIGSTOP)
        os.waitpid(children[1].pid, os.WUNTRACED)
        outcome, taken = job.collect(store, seconds=60)
        state = Path(f"/proc/{children[1].pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        assert state == "T"
        assert list(taken) == [path(0)]
        assert "rank 1: its process is frozen" in outcome.note
        children[1].send_signal(signal.SIGCONT)


def test_a_killed_rank_has_no_reader(job: Job, store: Store) -> None:
    with job.torch({0: "answer", 1: "answer"}) as children:
        children[1].kill()
        children[1].wait()
        outcome, taken = job.collect(store, seconds=60)
    assert list(taken) == [path(0)]
    assert outcome.ending is Ending.PARTIAL
    assert "rank 1: its process has ended" in outcome.note


def test_what_a_dead_rank_left_is_seen_through_a_peers_root(job: Job, store: Store) -> None:
    job.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = ""
    job.add(os.getpid(), 0)
    job.add(2**22 + 1, 1, root=Path("/proc/4194305/root"))
    for rank in (0, 1):
        job.file(rank).write_bytes(dump(time.time()))
    outcome, taken = job.collect(store)
    assert sorted(taken) == [path(0), path(1)]
    assert outcome.ending is Ending.DONE


def test_a_healthy_instance_is_not_asked(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}):
        outcome, taken = job.collect(store, job.scene(assessment=HEALTHY), seconds=60)
        assert not job.asked(0)
    assert taken == {}
    assert outcome.ending is Ending.DECLINED
    assert "--dumps always asks all the same" in outcome.note
    assert "31 tokens" in outcome.note


@pytest.mark.parametrize(
    ("wishes", "asked"),
    [
        (Wishes(dumps=DumpWish.ALWAYS), True),
        (Wishes(dumps=DumpWish.NEVER), False),
        (Wishes(stop_confirmed=True), True),
        (Wishes(dumps=DumpWish.NEVER, stop_confirmed=True), False),
    ],
)
def test_wishes_that_need_no_assessment_do_not_wait_for_one(
    job: Job, store: Store, wishes: Wishes, asked: bool
) -> None:
    with job.torch({0: "answer"}):
        begun = time.monotonic()
        job.collect(store, job.scene(wishes, None), seconds=100)
        assert time.monotonic() - begun < 50
        assert job.asked(0) is asked


def test_without_an_assessment_in_time_the_ranks_are_asked(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}):
        outcome, taken = job.collect(store, job.scene(assessment=None), seconds=4.5)
    assert outcome.ending is Ending.DONE
    assert list(taken) == [path(0)]


@pytest.mark.parametrize("assessment", [None, UNKNOWN])
def test_nobody_is_asked_for_what_cannot_come_in_time(job: Job, store: Store, assessment: Any) -> None:
    with job.torch({0: "answer"}):
        outcome, taken = job.collect(store, job.scene(assessment=assessment), seconds=1.5)
        assert not job.asked(0)
    assert outcome.ending is Ending.DECLINED
    assert "longer --deadline" in outcome.note
    assert not taken


def test_what_is_neither_healthy_nor_stopped_is_asked(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}):
        _, taken = job.collect(store, job.scene(assessment=UNKNOWN))
    assert list(taken) == [path(0)]


def test_the_watchdogs_dump_is_taken_before_another_overwrites_it(job: Job, store: Store) -> None:
    older = dump(job.started_at + 1)
    job.file(0).write_bytes(older)
    os.utime(job.file(0), (time.time() + 1, time.time() - 60))
    job.started_at -= 3600
    with job.torch({0: "answer"}):
        _, taken = job.collect(store)
    assert taken[path(0)] == older
    assert taken[f"{path(0)}-2"] != older
    assert [piece.rank for piece in store.pieces() if piece.rank is not None] == [0, 0]


def test_a_dump_of_this_moment_is_not_asked_for_again(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}):
        job.file(0).write_bytes(dump(time.time()))
        outcome, taken = job.collect(store)
        assert not job.asked(0)
    assert list(taken) == [path(0)]
    assert outcome.ending is Ending.DONE


@pytest.mark.parametrize("how", ["by its time", "by its content"])
def test_a_dump_of_an_earlier_run_is_named_and_left(job: Job, store: Store, how: str) -> None:
    job.file(0).write_bytes(dump(job.started_at - 4000))
    if how == "by its time":
        job.file(0).write_bytes(b'{"version": "2.10", "pg_status": {}, "pg_config": {}, "entries": []}')
        os.utime(job.file(0), (job.started_at - 3000, job.started_at - 3000))
    job.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = ""
    job.add(os.getpid(), 0)
    outcome, taken = job.collect(store, seconds=60)
    assert taken == {}
    assert outcome.ending is Ending.NOTHING
    assert "earlier run" in outcome.warnings[0]
    assert "/dumps/trace_0" in outcome.warnings[0]
    assert "PIPE_FILE was not set" in outcome.note


def test_the_other_ranks_of_a_shared_folder_are_taken_too(job: Job, store: Store) -> None:
    job.world_size = 4
    for rank in (0, 2, 3, 4):
        job.file(rank).write_bytes(dump(time.time()))
    job.file(7).with_name("trace_2.bak").write_bytes(b"x")
    job.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = ""
    job.add(os.getpid(), 0)
    outcome, taken = job.collect(store)
    assert sorted(taken) == [path(0), path(2), path(3)]
    assert "ranks 2, 3, which do not live here" in outcome.note
    assert outcome.ending is Ending.DONE


def test_another_runs_dump_of_another_node_is_left_out(job: Job, store: Store) -> None:
    job.file(5).write_bytes(dump(time.time() - 7200))
    os.utime(job.file(5), (time.time() - 7000, time.time() - 7000))
    job.add(os.getpid(), 0, environ={"TORCH_FR_DUMP_TEMP_FILE": "/dumps/trace_"})
    _, taken = job.collect(store)
    assert taken == {}


def test_ranks_whose_watchdogs_dump_one_after_the_other_are_waited_for(job: Job, store: Store) -> None:
    job.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = ""
    job.file(0).write_bytes(dump(time.time()))
    with job.torch({1: "slow"}):
        job.add(os.getpid(), 0)
        writer = os.open(job.pipe(1), os.O_WRONLY | os.O_NONBLOCK)
        os.write(writer, b"1")  # stands for the watchdog of rank 1, which comes later
        outcome, taken = job.collect(store)
        os.close(writer)
    assert sorted(taken) == [path(0), path(1)]
    assert outcome.ending is Ending.DONE


def test_a_dump_under_a_wrong_rank_is_kept_as_its_contents_rank(job: Job, store: Store) -> None:
    (job.root / "source_0").write_bytes(json_dump(time.time(), {"tp": "[2, 3]", "pp": "[1, 3]"}))
    with job.torch({0: "answer"}):
        outcome, taken = job.collect(store)
    assert list(taken) == [path(3)]
    assert store.pieces()[0].rank == 3
    assert "collectives of rank 3" in outcome.warnings[0]
    assert outcome.ending is Ending.PARTIAL


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x02cposix\nsystem\n(X\x04\x00\x00\x00trueitR.",
        b"root:x:0:0:root:/root:/bin/sh\n",
        b"\x80\x02}.",
        b'{"some": "json"}',
    ],
)
def test_what_is_no_dump_does_not_get_into_the_bundle(job: Job, store: Store, content: bytes) -> None:
    job.file(0).write_bytes(content)
    os.utime(job.file(0), (time.time() + 30, time.time() + 30))
    job.environ["TORCH_NCCL_DEBUG_INFO_PIPE_FILE"] = ""
    job.add(os.getpid(), 0)
    outcome, taken = job.collect(store, seconds=3)
    assert taken == {}
    assert "is no dump" in outcome.warnings[0]


def test_a_link_in_the_place_of_a_dump_is_not_followed(job: Job, store: Store, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(dump(time.time()))
    job.file(0).symlink_to(tmp_path / "secret")
    job.add(os.getpid(), 0)
    outcome, taken = job.collect(store)
    assert taken == {}
    assert "symbolic link" in outcome.warnings[0]


def test_a_pipe_or_a_folder_in_the_place_of_a_dump_does_not_block(job: Job, store: Store) -> None:
    os.mkfifo(job.file(0))
    job.file(1).mkdir()
    job.add(os.getpid(), 0)
    job.add(os.getpid(), 1)
    outcome, taken = job.collect(store)
    assert taken == {}
    assert len(outcome.warnings) == 2


def test_why_a_rank_can_leave_no_dump_is_said(job: Job, store: Store) -> None:
    for rank, setting in enumerate(({"TORCH_NCCL_BLOCKING_WAIT": "1"}, {"TORCH_NCCL_TRACE_BUFFER_SIZE": "0"})):
        job.add(os.getpid(), rank, environ={**job.environ, **setting})
    outcome, _ = job.collect(store, seconds=60)
    assert outcome.ending is Ending.NOTHING
    assert "rank 0: TORCH_NCCL_BLOCKING_WAIT is set" in outcome.note
    assert "rank 1: TORCH_NCCL_TRACE_BUFFER_SIZE is 0" in outcome.note


def test_a_reason_that_many_ranks_share_is_said_once(job: Job, store: Store) -> None:
    for rank in range(8):
        job.add(os.getpid(), rank)
    outcome, _ = job.collect(store, seconds=60)
    assert outcome.note.count("is not there") == 1
    assert "ranks 0-7: its pipe is not there" in outcome.note


def test_the_rank_of_a_process_is_found_by_the_pipe_that_it_holds_open(job: Job, store: Store) -> None:
    with job.torch({3: "answer"}, rank=None):
        outcome, taken = job.collect(store)
    assert list(taken) == [path(3)]
    assert outcome.ending is Ending.DONE


def test_a_pid_that_went_to_another_process_is_not_asked(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}, start_ticks=1):
        outcome, taken = job.collect(store, seconds=60)
        assert not job.asked(0)
    assert taken == {}
    assert "its process has ended" in outcome.note


def test_two_processes_with_one_file_are_told_of(job: Job, store: Store) -> None:
    job.file(0).write_bytes(dump(time.time()))
    job.add(os.getpid(), 0)
    job.add(os.getppid(), 0)
    outcome, taken = job.collect(store)
    assert list(taken) == [path(0)]
    assert "two processes write this file" in outcome.warnings[0]


def test_a_full_disk_lets_ras_go_on(job: Job, tmp_path: Path) -> None:
    store = Store(tmp_path / "small", max_bytes=10)
    job.file(0).write_bytes(dump(time.time()))
    job.add(os.getpid(), 0)
    scene = job.scene()
    with pytest.raises(SinkFull):
        DumpFiles().collect(scene, store.sink("flight"), Deadline.after(5))
    assert scene.board.dumped(Deadline.after(0))


def test_no_instance(store: Store) -> None:
    scene = Scene(None, Machine(), Wishes())
    outcome = DumpFiles().collect(scene, store.sink("flight"), Deadline.after(5))
    assert outcome.ending is Ending.NOTHING
    assert scene.board.dumped(Deadline.after(0))


def test_no_permission_is_said(job: Job, store: Store) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    job.file(0).write_bytes(dump(time.time()))
    job.file(0).chmod(0)
    job.add(os.getpid(), 0)
    outcome, taken = job.collect(store)
    assert taken == {}
    assert outcome.ending is Ending.DENIED


def test_a_file_name_without_rank(job: Job, store: Store) -> None:
    job.environ["TORCH_FR_DUMP_DYNAMIC_FILE_NAME"] = "1"
    (job.root / "dumps" / "trace_").write_bytes(dump(time.time()))
    job.add(os.getpid(), 2)
    _, taken = job.collect(store)
    assert list(taken) == [path(2)]


def test_what_it_says_is_plain_json_text(job: Job, store: Store) -> None:
    with job.torch({0: "answer"}):
        outcome, _ = job.collect(store, job.scene(assessment=STOPPED))
    assert json.loads(json.dumps(outcome.note)) == outcome.note
    assert pieces(store)


def test_what_was_refused_says_what_would_help() -> None:
    decision = Decision(False, "not asked for dumps: work advances")
    outcome = told.outcome((), (), decision, {}, {}, {}, asked=False, denied=True)
    assert "CAP_SYS_PTRACE" in outcome.note
    assert "CAP_SYS_PTRACE" not in told.outcome((), (), decision, {}, {}, {}, asked=False, denied=False).note
