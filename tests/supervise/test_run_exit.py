"""How `rankmuster run` ends, and what happens when its command does."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from rankmuster.collect.deadline import Deadline
from rankmuster.model.incident import Ending, GroupState, StartWish
from supervised_run import SECONDS, Run, alive, until

Start = Callable[..., Run]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        (("true",), 0),
        (("bash", "-c", "exit 7"), 7),
        (("bash", "-c", "kill -KILL $$"), 137),
        (("bash", "-c", "kill -SEGV $$"), 139),
        (("/no/such/program",), 127),
        (("/etc/passwd",), 126),
        (("/",), 126),
    ],
)
def test_its_status_is_the_commands(run: Start, command: tuple[str, ...], status: int) -> None:
    made = run(*command)
    assert made.ended() == status, made.err
    assert not made.socket.exists()


def test_what_the_command_leaves_behind_is_ended(run: Start) -> None:
    made = run(
        "bash", "-c", "(setsid bash -c 'echo $$ > left; exec sleep 1000' &); until [ -s left ]; do :; done; exit 3"
    )
    assert made.ended() == 3
    assert not alive(made.pid_of("left"))
    assert b"1 process(es) that it left were ended" in made.err


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)])
def test_a_signal_ends_the_group_in_order(
    run: Start, number: signal.Signals, status: int, request: pytest.FixtureRequest
) -> None:
    # whoever runs the tests under nohup hands an ignored SIGHUP on
    earlier = signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    request.addfinalizer(lambda: signal.signal(number, earlier))
    command = (
        "trap 'echo 1 > asked; exit' TERM; (sleep 1000 & echo $! > below); echo $$ > mine; while :; do sleep 0.05; done"
    )
    made = run("bash", "-c", command)
    mine, below = made.pid_of("mine"), made.pid_of("below")
    made.process.send_signal(number)
    assert made.ended() == status
    assert not alive(mine)
    assert not alive(below)
    assert (made.work / "asked").exists()


def test_under_nohup_a_terminal_that_goes_away_ends_nothing(run: Start, request: pytest.FixtureRequest) -> None:
    earlier = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    request.addfinalizer(lambda: signal.signal(signal.SIGHUP, earlier))
    made = run("bash", "-c", "echo $$ > mine; while :; do sleep 0.05; done")
    mine = made.pid_of("mine")
    made.process.send_signal(signal.SIGHUP)
    assert made.look().state is GroupState.RUNNING
    made.process.send_signal(signal.SIGTERM)
    assert made.ended() == 143
    assert not alive(mine)


def test_a_second_ctrl_c_does_not_wait_for_the_grace(run: Start) -> None:
    made = run("bash", "-c", "trap '' TERM; echo $$ > mine; while :; do sleep 1000; done", options=("--grace", "3000"))
    mine = made.pid_of("mine")
    made.process.send_signal(signal.SIGINT)
    until(lambda: made.look().state is GroupState.ENDING)
    assert alive(mine)
    made.process.send_signal(signal.SIGINT)
    assert made.ended() == 130
    assert not alive(mine)


def test_it_waits_for_the_incidents_runner(run: Start) -> None:
    made = run("bash", "-c", "echo $$ >> starts; [ -e again ] && exec sleep 1000; exit 9", options=("--on-end", "wait"))
    until(lambda: made.look().state is GroupState.ENDED)
    seen = made.look()
    assert seen.ended_by_itself
    assert seen.exit_status == 9
    (made.work / "again").touch()
    answer = made.client.start(seen.incarnation, "i/start/a", StartWish(), Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE
    now = made.running()
    assert now.incarnation == answer.data["incarnation"] != seen.incarnation
    assert not now.ended_by_itself
    assert now.operation == "i/start/a"


def test_when_it_ended_is_told_and_not_when_it_began(run: Start) -> None:
    made = run("bash", "-c", "until [ -e end ]; do sleep 0.05; done", options=("--on-end", "wait"))
    began = made.running().at
    (made.work / "end").touch()
    until(lambda: made.look().state is GroupState.ENDED)
    ended = made.look().at
    assert began is not None
    assert ended is not None
    assert began < ended


def test_a_group_that_was_told_to_end_is_waited_for_whatever_on_end_says(run: Start) -> None:
    made = run("sleep", "1000", options=("--on-end", "exit"))
    seen = made.running()
    made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    answer = made.client.start(seen.incarnation, "i/start/a", StartWish(), Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE
    assert made.running().incarnation != seen.incarnation
    assert made.process.poll() is None


def test_it_is_started_again_and_not_for_ever(run: Start) -> None:
    made = run(
        "bash", "-c", "echo $RANKMUSTER_INCARNATION >> starts; exit 4",
        options=("--on-end", "restart", "--restarts", "2", "--within", "60"),
    )  # fmt: skip
    assert made.ended() == 4
    names = (made.work / "starts").read_text(encoding="ascii").split()
    assert len(names) == len(set(names)) == 3
    assert b"it is not started again" in made.err


def test_a_restart_that_is_due_is_told_and_can_be_called_off(run: Start) -> None:
    made = run("bash", "-c", "echo x >> starts; exit 4", options=("--on-end", "restart", "--restarts", "9"))
    until(lambda: made.work.joinpath("starts").exists() and len(made.work.joinpath("starts").read_text().split()) == 3)
    until(lambda: "again" in made.look().note)  # in 4 s
    seen = made.look()
    assert seen.state is GroupState.STARTING
    answer = made.client.terminate(seen.incarnation, "i/terminate/a", Deadline.after(SECONDS))
    assert answer.ending is Ending.DONE
    assert made.look().state is GroupState.ENDED


def test_output_goes_through_and_to_a_file(run: Start, tmp_path: Path) -> None:
    made = run("bash", "-c", "echo out; echo err >&2")
    made.ended()
    assert made.out == b"out\n"
    assert b"err\n" in made.err
    log = tmp_path / "log"
    log.write_text("before\n", encoding="ascii")
    logged = run("bash", "-c", "echo out; echo err >&2", options=("--log", str(log)))
    logged.ended()
    assert logged.out == b""
    assert log.read_text(encoding="ascii") == "before\nout\nerr\n"


def test_a_log_that_cannot_be_written_is_said(run: Start, tmp_path: Path) -> None:
    made = run("true", options=("--log", str(tmp_path / "no" / "log")))
    assert made.ended() == 126
    assert b"No such file" in made.err


def test_nobody_who_reads_its_messages_holds_it_up(run: Start, tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    while True:  # full
        try:
            os.write(writing, b"x" * 4096)
        except BlockingIOError:
            break
    command = [*Run.__init__.__globals__["RUN"], "--folder", str(tmp_path / "f"), "--profile", "none", "--", "true"]
    process = subprocess.Popen(command, stderr=writing, stdout=subprocess.DEVNULL)
    assert process.wait(SECONDS) == 0
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--instance", "a/b"), "is no name of an instance"),
        (("--instance", "é"), "is no name of an instance"),
        (("--folder", "/" + "x" * 120), "Linux allows 107"),
        (("--torch", "new"), "is no version"),
        (("--evidence", "/a\nb"), "cannot be printed"),
        (("--folder", "/proc/x"), "cannot be used"),
    ],
)
def test_bad_usage_is_refused_before_anything_starts(tmp_path: Path, options: tuple[str, ...], said: str) -> None:
    command = [
        *Run.__init__.__globals__["RUN"],
        "--folder",
        str(tmp_path),
        *options,
        "--",
        "touch",
        str(tmp_path / "x"),
    ]
    done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    assert done.returncode == 3
    assert said in done.stderr.decode()
    assert not (tmp_path / "x").exists()


def test_a_terminal_is_not_read_and_ctrl_c_ends_it_once(run: Start, tmp_path: Path) -> None:
    import pty

    command = [
        *Run.__init__.__globals__["RUN"], "--folder", str(tmp_path / "f"), "--profile", "none", "--", "bash", "-c",
        "trap 'echo INT >> got' INT; trap 'echo TERM >> got; exit' TERM; cat; echo $$ > mine; "
        "while :; do sleep 0.05; done",
    ]  # fmt: skip
    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # tests may run where a shell ignores it
        os.chdir(tmp_path)
        os.execv(command[0], command)
    read = Run.__new__(Run)
    read.work = tmp_path
    mine = read.pid_of("mine")
    os.write(terminal, b"\x03")
    _, status = os.waitpid(child, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 130
    assert not alive(mine)
    assert (tmp_path / "got").read_text(encoding="ascii") == "TERM\n"
