"""The logs of real processes, followed through starts, ends, and whatever stands in the way."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from log_target import WATCHDOG, Writer, observations, polled, process, target

from rankmuster.collect.deadline import Deadline
from rankmuster.collect.machine import Machine
from rankmuster.model.frameworklog import LogSpan, WatchdogTimeout
from rankmuster.model.nccllog import NcclInit, NcclProblem
from rankmuster.model.plane import Plane
from rankmuster.watch.progress.settings import WatchSettings
from rankmuster.watch.progress.window import Window
from rankmuster.watch.signals.framework_log import FrameworkLogSignal
from rankmuster.watch.signals.nccl_log import NcclLogSignal
from rankmuster.watch.signals.signal import Declined, Failed, Heard

INIT = (
    "node0:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55d5 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 "
    "commId 0xabc - Init START\n"
)
WARN = "node0:7:9 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.0.0.1<5> failed : refused\n"


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "rank1.log"
    path.write_text(WATCHDOG.format(rank=1))  # of the run before
    return path


@pytest.fixture
def writer(log: Path) -> Iterator[Writer]:
    with log.open("ab") as file:
        one = Writer(file)
    yield one
    one.end()


def _signal(*processes: object, tmp_path: Path, **more: object) -> FrameworkLogSignal:
    return FrameworkLogSignal(target(*processes), var_log=tmp_path, docker=tmp_path, **more)  # type: ignore[arg-type]


def test_what_a_rank_writes_is_heard_and_nothing_of_before(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    first = polled(signal)
    assert observations(first) == []
    assert [one.plane for one in first if isinstance(one, Heard)] == [Plane.FRAMEWORK_LOG]  # it is there to be heard
    writer.say(WATCHDOG.format(rank=1) + WARN)
    said = polled(signal, NcclProblem)
    said += (
        polled(signal, WatchdogTimeout) if not any(isinstance(o, WatchdogTimeout) for o in observations(said)) else []
    )
    [timeout] = [one for one in said if isinstance(one, Heard) and isinstance(one.observation, WatchdogTimeout)]
    assert timeout.plane is Plane.FRAMEWORK_LOG
    assert timeout.observation.origin.rank == 1
    assert abs(timeout.unix - timeout.now - (said[-1].unix - said[-1].now)) < 0.1
    [problem] = [one for one in said if isinstance(one, Heard) and isinstance(one.observation, NcclProblem)]
    assert problem.plane is Plane.NCCL_LOG
    assert signal.files
    signal.close()
    assert signal.poll(Deadline.after(1)) == []


def test_a_file_that_ranks_share_is_followed_once_and_is_nobodys(log: Path, tmp_path: Path) -> None:
    shared = tmp_path / "all.log"
    with shared.open("ab") as file:
        ranks = [Writer(file), Writer(file)]
    signal = _signal(*(one.process(rank) for rank, one in enumerate(ranks)), tmp_path=tmp_path)
    polled(signal)
    assert len(signal.files) == 1
    ranks[1].say("Watchdog is fine\n" + WATCHDOG.format(rank=7))
    [said] = observations(polled(signal, WatchdogTimeout))
    assert said.origin.rank == 7
    assert said.origin.source == "logs/all.log"
    for one in ranks:
        one.end()
    signal.close()


def test_last_words_and_a_restart_into_the_same_file(log: Path, tmp_path: Path) -> None:
    with log.open("ab") as file:
        first = Writer(file)
        signal = _signal(first.process(1), tmp_path=tmp_path)
        polled(signal)
        first.say("last words\n" + WATCHDOG.format(rank=1).replace("=17", "=18"))
        first.end()
        second = Writer(file)
        second.say(WATCHDOG.format(rank=1).replace("=17", "=19"))
        signal.retarget(target(second.process(1)))
        told: list[int] = []
        for _ in range(200):
            told += [one.seq for one in observations(polled(signal)) if isinstance(one, WatchdogTimeout)]
            if 19 in told:
                break
        assert told == [18, 19]
        second.end()
    signal.close()


def test_output_to_a_pipe_is_declined_once_with_what_to_do(tmp_path: Path) -> None:
    one = Writer(subprocess.PIPE)
    signal = _signal(one.process(0), tmp_path=tmp_path)
    [said] = polled(signal)
    assert isinstance(said, Declined)
    assert said.plane is Plane.FRAMEWORK_LOG
    assert "a pipe (rank 0)" in said.reason
    assert "logs.files" in said.reason
    assert polled(signal) == []
    signal.retarget(target(one.process(0)))
    assert polled(signal) == []  # nothing has changed
    assert one.child.stdout is not None
    one.end()
    one.child.stdout.close()
    signal.close()


def test_files_of_the_configuration_are_followed_where_output_is_piped(tmp_path: Path) -> None:
    named = tmp_path / "launcher.log"
    one = Writer(subprocess.PIPE)
    signal = _signal(one.process(0), tmp_path=tmp_path, files=(named,))
    [said] = polled(signal)
    assert isinstance(said, Failed)
    assert str(named) in said.reason
    named.write_text(WATCHDOG.format(rank=0))
    assert observations(polled(signal, WatchdogTimeout))[0].origin.rank == 0
    assert one.child.stdout is not None
    one.end()
    one.child.stdout.close()
    signal.close()


def test_a_named_file_that_is_a_pipe_is_said_at_each_look(tmp_path: Path) -> None:
    trap = tmp_path / "trap.log"
    os.mkfifo(trap)
    signal = FrameworkLogSignal(target(), files=(trap,), var_log=tmp_path, docker=tmp_path)
    for _ in range(2):
        [said] = polled(signal)
        assert isinstance(said, Failed)
        assert "is a pipe and was not opened" in said.reason
    signal.close()


def test_a_container_runtimes_file_is_followed_and_unwrapped(tmp_path: Path) -> None:
    one = Writer(subprocess.PIPE)
    uid = "0f0e0d0c-1111-2222-3333-444455556666"
    folder = tmp_path / "pods" / f"default_llm-0_{uid}" / "engine"
    folder.mkdir(parents=True)
    for number in (0, 1):
        (folder / f"{number}.log").write_text("2026-11-30T03:00:00.123456789Z stderr F old\n")
    signal = _signal(one.process(0, POD_UID=uid), tmp_path=tmp_path)
    polled(signal)
    assert signal.files == (f"/pods/default_llm-0_{uid}/engine/1.log",)
    with (folder / "1.log").open("a") as file:
        file.write(f"2026-11-30T03:00:00.123456789Z stderr F {WATCHDOG.format(rank=5)}")
    assert observations(polled(signal, WatchdogTimeout))[0].origin.rank == 5
    assert one.child.stdout is not None
    one.end()
    one.child.stdout.close()
    signal.close()


def test_more_than_one_look_reads_is_said(writer: Writer, log: Path, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    polled(signal)
    with log.open("r+b") as file:
        file.seek(1 << 32)
        file.write(b"\nend\n")
    said = polled(signal)
    [failed] = [one for one in said if isinstance(one, Failed)]
    assert "were passed over" in failed.reason
    assert "MiB" in failed.reason
    signal.close()


def test_nobody_to_follow_is_declined(tmp_path: Path) -> None:
    signal = FrameworkLogSignal(None, var_log=tmp_path, docker=tmp_path)
    [said] = polled(signal)
    assert isinstance(said, Declined)
    signal.close()


def test_no_time_is_no_wait(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    assert all(isinstance(one, Failed | Declined) for one in signal.poll(Deadline.after(0.0)))
    signal.close()


def test_nccls_own_file_that_comes_after_the_start_is_read_from_its_start(tmp_path: Path) -> None:
    pid = os.getpid()
    now = [100.0]
    one = process(pid, 0, NCCL_DEBUG="INFO", NCCL_DEBUG_FILE=str(tmp_path / "nccl.%h.%p.log"))
    signal = NcclLogSignal(target(one), clock=lambda: now[0])
    [said] = polled(signal)
    assert isinstance(said, Declined)
    assert "do not exist (yet)" in said.reason
    (tmp_path / f"nccl.node0.{pid}.log").write_text(INIT.format(pid=pid))
    (tmp_path / f"nccl.node0.{pid}.log.1").write_text(INIT.format(pid=pid))  # a rotated one is no news
    now[0] += 20
    told = polled(signal, NcclInit)
    assert len(observations(told)) == 1
    assert {one.plane for one in told if isinstance(one, Heard)} == {Plane.NCCL_LOG}
    signal.close()


@pytest.mark.parametrize(
    ("environ", "words"), [({}, "NCCL_DEBUG is not set"), ({"NCCL_DEBUG": "VERSION"}, "NCCL_DEBUG is VERSION")]
)
def test_without_a_level_nccl_logs_nothing(environ: dict[str, str], words: str, tmp_path: Path) -> None:
    environ = {"HOME": str(tmp_path), "NCCL_CONF_FILE": str(tmp_path / "none"), **environ}
    signal = NcclLogSignal(target(process(os.getpid(), 0, **environ)))
    [said] = polled(signal)
    assert isinstance(said, Declined)
    assert words in said.reason
    signal.close()


def test_what_nccl_writes_to_the_output_is_the_other_signals_to_hear(tmp_path: Path) -> None:
    signal = NcclLogSignal(target(process(os.getpid(), 0, NCCL_DEBUG="WARN")))
    assert polled(signal) == []
    signal.close()


def test_a_quiet_log_is_heard_all_the_same(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    polled(signal)
    [said] = polled(signal)
    assert isinstance(said, Heard)
    assert isinstance(said.observation, LogSpan)
    assert said.observation.lines == 0
    signal.close()


def test_one_file_that_is_none_among_others_is_said_once(writer: Writer, tmp_path: Path) -> None:
    trap = tmp_path / "trap.log"
    os.mkfifo(trap)
    signal = _signal(writer.process(1), tmp_path=tmp_path, files=(trap,))
    said = polled(signal)
    assert [type(one) for one in said] == [Failed, Heard]
    assert [type(one) for one in polled(signal)] == [Heard]
    signal.close()


def test_files_of_the_configuration_that_are_not_there_are_noted_though_others_speak(
    writer: Writer, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "fifo")
    misspelt = tmp_path / "engin.log"
    signal = _signal(writer.process(1), tmp_path=tmp_path, files=[misspelt, tmp_path / "fifo"])
    assert any(isinstance(one, Heard) for one in polled(signal))
    notes = " | ".join(signal.notes)
    assert f"{misspelt} is not there" in notes
    assert "fifo" in notes
    misspelt.touch()
    polled(signal)
    assert str(misspelt) not in " | ".join(signal.notes)


def test_a_search_without_time_gives_up_nothing(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    polled(signal)
    before = signal.files
    signal.retarget(target(writer.process(1)))
    writer.say(WATCHDOG.format(rank=1))
    signal.poll(Deadline.after(0.0))
    assert signal.files == before
    assert len(observations(polled(signal, WatchdogTimeout))) == 1
    signal.close()


def test_no_descriptor_is_left_open(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        signal.retarget(target(writer.process(1)))
        polled(signal)
        signal.retarget(target())
        polled(signal)
    signal.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_closing_from_another_thread_while_it_polls(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    threads = [threading.Thread(target=signal.poll, args=(Deadline.after(5.0),)) for _ in range(3)]
    for one in threads:
        one.start()
    signal.close()
    for one in threads:
        one.join(10)
    assert signal.files == ()


def test_dockers_own_file_is_followed_by_the_containers_id(tmp_path: Path) -> None:
    container = "ab" * 32
    log = tmp_path / container / f"{container}-json.log"
    log.parent.mkdir()
    log.write_text('{"log":"old\\n","stream":"stderr","time":"2026-11-30T03:00:00Z"}\n')
    proc = tmp_path / "proc"
    (proc / "77").mkdir(parents=True)
    (proc / "77" / "cgroup").write_text(f"0::/system.slice/docker-{container}.scope\n")
    one = dataclasses.replace(process(os.getpid(), 2), pid=77)
    signal = FrameworkLogSignal(target(one), machine=Machine(proc=proc), var_log=tmp_path, docker=tmp_path)
    polled(signal)
    assert len(signal.files) == 1
    with log.open("a") as file:
        file.write(json.dumps({"log": WATCHDOG.format(rank=2), "stream": "stderr", "time": "x"}) + "\n")
    [said] = observations(polled(signal, WatchdogTimeout))
    assert said.origin.rank == 2
    signal.close()


def test_a_window_takes_what_is_heard_and_knows_that_the_plane_spoke(writer: Writer, tmp_path: Path) -> None:
    signal = _signal(writer.process(1), tmp_path=tmp_path)
    window = Window(WatchSettings())

    def feed() -> None:
        for one in polled(signal):
            if isinstance(one, Heard):
                window.feed(one.now, one.unix, one.observation, one.plane)

    feed()
    assert Plane.FRAMEWORK_LOG in window.spoke
    assert window.evidence(time.monotonic()).by_type == {}
    writer.say(WATCHDOG.format(rank=1))
    end = time.monotonic() + 10
    while not window.evidence(time.monotonic()).of(WatchdogTimeout):
        assert time.monotonic() < end
        feed()
    [said] = window.evidence(time.monotonic()).of(WatchdogTimeout)
    assert said.origin.stamp is not None
    assert abs((said.origin.stamp.unix_seconds or 0.0) - time.time()) < 60
    signal.close()
