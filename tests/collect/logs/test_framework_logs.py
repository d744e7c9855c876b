"""What processes have written: open files, launchers' folders, the runtime's and the journal's copies."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_scene import NOW, WATCHDOG, Taken, process, scene

from rankmuster.collect.logs import tail
from rankmuster.collect.logs.framework_logs import FrameworkLogs
from rankmuster.collect.logs.sources import bundle_path
from rankmuster.collect.machine import Machine
from rankmuster.collect.outcome import Ending
from rankmuster.collect.target import ProcessOfInstance, Role
from rankmuster.evidence import names
from rankmuster.evidence.bundle import load
from rankmuster.model.frameworklog import WatchdogTimeout

WAITING = "import sys; sys.stdin.read()"
POD = "11111111-2222-3333-4444-555555555555"


@contextmanager
def writer(*, out: object = subprocess.DEVNULL, err: object = subprocess.DEVNULL) -> Iterator[int]:
    """A process with these open, until the end of the block."""
    child = subprocess.Popen(
        [sys.executable, "-c", WAITING],
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=err,  # type: ignore[call-overload]
    )
    try:
        yield child.pid
    finally:
        assert child.stdin is not None
        child.stdin.close()
        child.wait(20)


def collector(tmp_path: Path, **more: object) -> FrameworkLogs:
    return FrameworkLogs(var_log=tmp_path / "var-log", **more)  # type: ignore[arg-type]


def test_each_ranks_stderr_is_taken_and_read_as_that_ranks(tmp_path: Path) -> None:
    logs = [tmp_path / f"worker_{7 - rank}.err" for rank in range(2)]
    for rank, log in enumerate(logs):
        log.write_text("NCCL is quiet\n" + WATCHDOG.format(rank=rank))
    with logs[0].open("a") as zero, logs[1].open("a") as one, writer(err=zero) as a, writer(err=one) as b:
        taken = Taken(tmp_path, collector(tmp_path), scene(process(0, pid=a), process(1, pid=b)))
    assert sorted(taken.pieces) == ["logs/rank0-worker_7.err", "logs/rank1-worker_6.err"]
    assert [piece.rank for piece in taken.pieces.values()] == [0, 1]
    assert taken.outcome.ending is Ending.DONE
    assert {said.origin.rank for said in load(taken.folder).of(WatchdogTimeout)} == {0, 1}


def test_a_deleted_log_is_still_had(tmp_path: Path) -> None:
    log = tmp_path / "gone.log"
    with log.open("w") as file, writer(out=file) as pid:
        file.write("the last words\n")
        file.flush()
        log.unlink()
        taken = Taken(tmp_path, collector(tmp_path), scene(process(3, pid=pid)))
    assert taken.read("logs/rank3-gone.log") == b"the last words\n"


def test_one_file_of_all_is_taken_once_and_is_nobodys(tmp_path: Path) -> None:
    log = tmp_path / "engine.log"
    log.write_text("INFO 11-29 20:00:00 [x.py:1] hello\n")
    with log.open("a") as file, writer(out=file, err=file) as a, writer(err=file) as b:
        taken = Taken(tmp_path, collector(tmp_path), scene(process(0, pid=a), process(1, pid=b)))
    assert list(taken.pieces) == ["logs/engine.log"]
    assert taken.pieces["logs/engine.log"].rank is None


def test_what_a_ranks_helpers_write_is_the_ranks(tmp_path: Path) -> None:
    log = tmp_path / "w.log"
    log.write_text("x\n")
    with log.open("a") as file, writer(err=file) as a, writer(err=file) as b:
        helper = process(None, pid=b, parent=a, role=Role.HELPER)
        taken = Taken(tmp_path, collector(tmp_path), scene(process(2, pid=a), helper))
    assert list(taken.pieces) == ["logs/rank2-w.log"]


def test_pipes_are_named_and_left_alone(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"said before\n")
    try:
        with writer(out=writing, err=writing) as pid:
            taken = Taken(tmp_path, collector(tmp_path), scene(process(0, pid=pid)))
    finally:
        os.close(writing)
        rest = os.read(reading, 100)
        os.close(reading)
    assert taken.outcome.ending is Ending.NOTHING
    assert "a pipe (rank 0)" in taken.outcome.note
    assert "kubectl logs" in taken.outcome.note
    assert rest == b"said before\n"  # nothing was taken from whoever reads it


def test_a_file_open_for_reading_is_no_output(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    with (tmp_path / "secret").open() as file, writer(out=file) as pid:
        taken = Taken(tmp_path, collector(tmp_path), scene(process(0, pid=pid)))
    assert taken.pieces == {}


def test_a_long_log_is_its_end_and_says_so(tmp_path: Path) -> None:
    from rankmuster.collect.collector import Wishes

    log = tmp_path / "long.log"
    log.write_text("".join(f"line {number}\n" for number in range(100_000)))
    with log.open("a") as file, writer(err=file) as pid:
        wishes = Wishes(max_log_bytes=10_000)
        taken = Taken(tmp_path, collector(tmp_path), scene(process(0, pid=pid), wishes=wishes))
    data = taken.read("logs/rank0-long.log")
    assert data.startswith(tail.LOST + b"line ")
    assert data.endswith(b"line 99999\n")
    assert len(data) <= 10_000
    assert "only the end" in taken.outcome.note


def test_torchruns_folder(tmp_path: Path) -> None:
    folder = tmp_path / "torchlog"
    for attempt in range(2):
        for local in range(2):
            place = folder / f"none_x1/attempt_{attempt}/{local}"
            place.mkdir(parents=True)
            (place / "stderr.log").write_text(WATCHDOG.format(rank=4 + local))
    old = folder / "none_x0/attempt_0/0"
    old.mkdir(parents=True)
    (old / "stderr.log").write_text("of an earlier run\n")
    os.utime(old / "stderr.log", (1_000_000_000, 1_000_000_000))
    workers = [process(4 + local, inner=50 + local, local_rank=local, started_at=1_700_000_000.0) for local in range(2)]
    taken = Taken(tmp_path, collector(tmp_path), scene(*workers, log_folders=(folder,)))
    assert sorted(taken.pieces) == [f"logs/rank{4 + n}-attempt{a}-stderr.log" for n in range(2) for a in range(2)]


def test_rays_session_folder(tmp_path: Path) -> None:
    folder = tmp_path / "session_1/logs"
    folder.mkdir(parents=True)
    for name in ("worker-ab-01000000-60.err", "worker-ab-01000000-61.out", "worker-cd-02000000-99.err", "raylet.err"):
        (folder / name).write_text(f"{name}\n")
    workers = [process(None, inner=60), process(1, inner=61)]
    taken = Taken(tmp_path, collector(tmp_path), scene(*workers, log_folders=(folder,)))
    assert sorted(taken.pieces) == [
        "logs/rank1-worker-ab-01000000-61.out",
        "logs/raylet.err",
        "logs/worker-ab-01000000-60.err",
    ]


def test_vllms_stack_dumps_and_torchruns_error_files(tmp_path: Path) -> None:
    dumps = tmp_path / "dumps"
    dumps.mkdir()
    for name in ("VLLM_STACK_DUMP_for_worker_1_61.log", "VLLM_STACK_DUMP_for_worker_0_999.log", "other.log"):
        (dumps / name).write_text(">>> Call stack dump #1\n")
    (tmp_path / "error.json").write_text('{"message": "x"}')
    config = json.dumps({"timeout": 300, "dump_dir": str(dumps)})
    server = process(None, inner=50, role=Role.SERVER, command=("vllm", "serve", "--watchdog-config", config))
    worker = process(1, inner=61, TORCHELASTIC_ERROR_FILE=str(tmp_path / "error.json"))
    taken = Taken(tmp_path, collector(tmp_path), scene(server, worker))
    assert sorted(taken.pieces) == ["logs/rank1-VLLM_STACK_DUMP_for_worker_1_61.log", "logs/rank1-error.json"]


@pytest.mark.parametrize("config", ["{", "[]", "null", '{"dump_dir": 7}', '{"dump_dir": ""}', "[" * 100_000])
def test_a_broken_watchdog_option_is_none(tmp_path: Path, config: str) -> None:
    server = process(None, role=Role.SERVER, command=("vllm", "serve", "--watchdog-config", config))
    assert Taken(tmp_path, collector(tmp_path), scene(server)).outcome.ending is Ending.NOTHING


def test_the_container_runtimes_logs_of_the_pod(tmp_path: Path) -> None:
    place = tmp_path / f"var-log/pods/default_llm-0_{POD}/vllm"
    place.mkdir(parents=True)
    (place / "1.log").write_text("2026-11-29T20:00:00.1Z stderr F now\n")
    (place / "0.log").write_text("2026-11-29T19:00:00.1Z stderr F before the restart\n")
    other = tmp_path / "var-log/pods/default_other_99999999-2222-3333-4444-555555555555/x"
    other.mkdir(parents=True)
    (other / "0.log").write_text("another pod's\n")
    taken = Taken(tmp_path, collector(tmp_path), scene(process(0, POD_UID=POD)))
    assert sorted(taken.pieces) == ["logs/pod-vllm-0.log", "logs/pod-vllm-1.log"]


@pytest.fixture
def journal_scene(tmp_path: Path) -> Iterator[object]:
    """A process of the machine's own /proc whose stderr is a socket, as systemd's services have."""
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs, writer(err=theirs) as pid:
        yield scene(process(0, pid=pid))


def program(tmp_path: Path, text: str) -> str:
    path = tmp_path / "journalctl"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_socket_without_a_unit_is_named(tmp_path: Path, journal_scene: object) -> None:
    taken = Taken(tmp_path, collector(tmp_path), journal_scene)  # type: ignore[arg-type]
    assert taken.outcome.ending in (Ending.NOTHING, Ending.DONE, Ending.PARTIAL)
    assert "a socket (rank 0)" in taken.outcome.note or taken.pieces


class TestJournal:
    """The unit's lines, or why there are none."""

    def ask(self, tmp_path: Path, text: str, limit: int = 1000) -> bytes | str:
        from rankmuster.collect.deadline import Deadline
        from rankmuster.collect.logs.keepers import journal

        return journal("vllm.service", limit, Deadline.after(10), program(tmp_path, text))

    def test_lines(self, tmp_path: Path) -> None:
        assert self.ask(tmp_path, 'echo "$@" | grep -q -- --unit=vllm.service && echo said') == b"said\n"

    def test_only_the_end_of_many(self, tmp_path: Path) -> None:
        data = self.ask(tmp_path, "for n in 1 2 3 4 5 6 7 8 9; do echo line number $n; done", 20)
        assert data == b"line number 9\n"

    def test_a_failure_in_its_own_words(self, tmp_path: Path) -> None:
        said = self.ask(tmp_path, "echo No journal files were found. >&2; exit 1")
        assert isinstance(said, str)
        assert "No journal files" in said

    def test_one_that_does_not_end(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        from rankmuster.collect.logs import keepers

        monkeypatch.setattr(keepers, "JOURNAL_SECONDS", 0.2)
        said = self.ask(tmp_path, "exec sleep 600")
        assert isinstance(said, str)
        assert "more than 0.2 s" in said

    def test_none(self) -> None:
        from rankmuster.collect.deadline import Deadline
        from rankmuster.collect.logs.keepers import journal

        assert journal("x.service", 10, Deadline.after(5), "/none/journalctl") == "/none/journalctl is not here"


@given(
    st.integers(min_value=0, max_value=5000) | st.none(),
    st.text(min_size=1, max_size=60)
    | st.from_regex(r"(?:nccl_trace|rank_?|dump|x)[._\-]?\d{1,5}(?:\.\w+)?", fullmatch=True),
)
def test_no_name_tells_a_reader_another_rank(rank: int | None, name: str) -> None:
    assert names.rank_of(bundle_path("logs", rank, name)) == rank


@given(st.binary(max_size=400), st.integers(min_value=20, max_value=300), st.integers(min_value=0, max_value=60))
def test_a_tail_is_never_longer_than_asked_and_ends_as_the_log_does(data: bytes, limit: int, head: int) -> None:
    import tempfile

    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        found = tail.read(file.fileno(), limit, head=head)
    assert len(found.data) <= max(limit, 2 * len(tail.LOST))
    assert found.cut == (len(data) > limit)
    if not found.cut:
        assert found.data == data.lstrip(b"\0")
    else:
        assert data.endswith(found.data.rpartition(tail.LOST)[2])


def test_nobody_is_asked_without_an_instance(tmp_path: Path) -> None:
    from rankmuster.collect.collector import Scene, Wishes

    taken = Taken(tmp_path, collector(tmp_path), Scene(None, Machine(), Wishes(), now=lambda: NOW))
    assert taken.outcome.ending is Ending.NOTHING


def test_a_process_that_has_gone_has_no_output(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left: ProcessOfInstance = process(0, pid=gone.pid)
    assert Taken(tmp_path, collector(tmp_path), scene(left)).outcome.ending is Ending.NOTHING
