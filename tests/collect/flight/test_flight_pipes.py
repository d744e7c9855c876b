"""One byte into the pipe of the very process that is meant, and never a wait."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from flight_job import Job

from rankmuster.collect.flight.pipes import Asked, ask, pipe_rank

PROC = Path("/proc")


@pytest.fixture
def job(tmp_path: Path) -> Job:
    return Job(tmp_path / "root")


def test_a_pipe_without_a_reader(job: Job) -> None:
    os.mkfifo(job.pipe(0))
    gone = job.add(2**22 + 1, 0)
    answer = ask(PROC, gone, "/pipes/ask_0.pipe")
    assert answer.asked is Asked.NO_READER
    assert "nobody reads" in answer.note


def test_a_pipe_that_another_process_reads_is_not_written_to(job: Job) -> None:
    with job.torch({0: "answer", 1: "answer"}):
        other = job.processes[1]
        assert ask(PROC, other, "/pipes/ask_0.pipe").asked is Asked.NOT_ITS_OWN
        assert not job.asked(0)


def test_a_pipe_that_was_replaced_by_another_run_is_not_written_to(job: Job) -> None:
    with job.torch({0: "never"}):
        first = job.processes[0]
        job.pipe(0).unlink()
        os.mkfifo(job.pipe(0))
        reader = os.open(job.pipe(0), os.O_RDONLY | os.O_NONBLOCK)
        try:
            assert ask(PROC, first, "/pipes/ask_0.pipe").asked is Asked.NOT_ITS_OWN
            assert os.read(reader, 1) == b"", "a byte came, or a writer holds it open"
        finally:
            os.close(reader)


def fill(writer: int, part: bytes) -> None:
    try:
        while True:
            os.write(writer, part)
    except BlockingIOError:
        return


def test_a_full_pipe_does_not_block(job: Job) -> None:
    os.mkfifo(job.pipe(0))
    reader = os.open(job.pipe(0), os.O_RDONLY | os.O_NONBLOCK)
    writer = os.open(job.pipe(0), os.O_WRONLY | os.O_NONBLOCK)
    try:
        fill(writer, b"x" * 4096)
        fill(writer, b"x")
        assert ask(PROC, job.add(os.getpid(), 0), "/pipes/ask_0.pipe").asked is Asked.FULL
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.parametrize("kind", ["file", "folder", "link", "absent"])
def test_what_is_no_pipe_is_not_written_to(job: Job, tmp_path: Path, kind: str) -> None:
    place = job.pipe(0)
    if kind == "file":
        place.write_bytes(b"keep")
    elif kind == "folder":
        place.mkdir()
    elif kind == "link":
        os.mkfifo(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    answer = ask(PROC, job.add(os.getpid(), 0), "/pipes/ask_0.pipe")
    wanted = {"absent": Asked.ABSENT, "link": Asked.FAILED}.get(kind, Asked.NOT_ITS_OWN)
    assert answer.asked is wanted
    if kind == "file":
        assert place.read_bytes() == b"keep"


def test_the_rank_in_the_name_of_an_open_pipe(job: Job) -> None:
    with job.torch({12: "never"}):
        process = job.processes[0]
        assert pipe_rank(PROC, process, "/pipes/ask_") == 12
        assert pipe_rank(PROC, process, "/pipes/other_") is None
    assert pipe_rank(PROC, process, "/pipes/ask_") is None
